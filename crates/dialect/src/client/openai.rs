//! Parts of requests that OpenAI's two APIs have in common.

use serde_json::Value;
use toolwire_contract::{Content, ToolChoice};

use super::{OutputFormat, ReadRequest, RequestFields, from_data_url, media, native};
use crate::Dialect;

/// Reads `auto`, `required` or `none`.
pub(crate) fn read_choice_mode(fields: &RequestFields, key: &str, name: &str) -> ReadRequest<ToolChoice> {
    Ok(match name {
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        "none" => ToolChoice::None,
        other => {
            return Err(fields.invalid(key, format!("must be `auto`, `required` or `none`, not `{other}`")));
        }
    })
}

/// Reads the format of the response. Chat Completions nests the schema in `json_schema`.
pub(crate) fn read_output_format(mut format: RequestFields) -> ReadRequest<OutputFormat> {
    match format.required_text("type")?.as_str() {
        "text" => Ok(OutputFormat::Text),
        "json_object" => Ok(OutputFormat::Json),
        "json_schema" => {
            let nested = format.object("json_schema")?;
            OutputFormat::read_schema(nested.unwrap_or(format))
        }
        other => {
            let problem = format!("must be `text`, `json_object` or `json_schema`, not `{other}`");
            Err(format.invalid("type", problem))
        }
    }
}

/// Reads `{"data", "format"}`.
pub(crate) fn read_audio(fields: &mut RequestFields) -> ReadRequest<Content> {
    let mut audio = fields.object("input_audio")?.ok_or_else(|| fields.missing("input_audio"))?;
    let media_type = match audio.required_text("format")?.as_str() {
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        other => return Err(audio.invalid("format", format!("must be `wav` or `mp3`, not `{other}`"))),
    };
    Ok(media(media_type, audio.required_text("data")?, None))
}

/// Reads `{"file_data", "filename"}`. A file in any other form can only be sent to the same API.
pub(crate) fn read_file(dialect: Dialect, fields: &mut RequestFields, part: Value) -> ReadRequest<Content> {
    let name = fields.text("filename")?;
    match fields.text("file_data")? {
        Some(data) => from_data_url(&data, name.as_deref())
            .ok_or_else(|| fields.invalid("file_data", "must be a data URL with base64")),
        None => Ok(native(dialect, part)),
    }
}
