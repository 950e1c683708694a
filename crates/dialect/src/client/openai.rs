//! Parts of requests that OpenAI's two APIs have in common. Some fields are in a nested object in Chat
//! Completions, and directly in the object in Responses: the function of a tool or a choice, the allowed
//! tools, and the response schema.

mod tools;

use serde_json::Value;
use toolwire_contract::Content;
use toolwire_contract::model::OutputFormat;

use super::{ReadRequest, RequestFields, from_data_url, media, native, read_schema};
use crate::Dialect;
pub(crate) use tools::read_tools;

/// Returns the fields of an object that one of the APIs nests.
fn nested(mut fields: RequestFields, key: &str, is_nested: bool) -> ReadRequest<RequestFields> {
    match is_nested {
        true => fields.object(key)?.ok_or_else(|| fields.missing(key)),
        false => Ok(fields),
    }
}

/// Reads the format of the response.
pub(crate) fn read_output_format(mut format: RequestFields, is_nested: bool) -> ReadRequest<OutputFormat> {
    match format.required_text("type")?.as_str() {
        "text" => Ok(OutputFormat::Text),
        "json_object" => Ok(OutputFormat::Json),
        "json_schema" => {
            let mut fields = nested(format, "json_schema", is_nested)?;
            let strict = fields.flag("strict")?.unwrap_or(false);
            read_schema(fields, strict)
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

/// Reads `{"file_data", "filename"}`. A file in any other format can only be sent to the same API.
pub(crate) fn read_file(dialect: Dialect, fields: &mut RequestFields, part: Value) -> ReadRequest<Content> {
    let name = fields.text("filename")?;
    match fields.text("file_data")? {
        Some(data) => from_data_url(&data, name.as_deref())
            .ok_or_else(|| fields.invalid("file_data", "must be a data URL with base64")),
        None => Ok(native(dialect, part)),
    }
}
