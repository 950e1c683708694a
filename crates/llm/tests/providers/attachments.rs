//! Files attached to a message, with every provider.

use std::sync::Arc;

use serde_json::json;
use toolwire_contract::model::{Model, ModelRequest, UnsupportedContent};
use toolwire_contract::{Block, Content, Message, Role};
use toolwire_testkit::provider::{Api, ModelOutput};

use crate::harness::{TestEndpoint, question};

/// A PNG image of one pixel.
const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// The start of a PDF.
const PDF: &str = "JVBERi0xLjQKJcOkw7zDtsOfCjIgMCBvYmoKPDwvTGVuZ3RoIDMgMCBSPj4Kc3RyZWFtCg==";

#[tokio::test]
async fn attached_files_reach_every_api_that_accepts_them() {
    for api in Api::ALL {
        let endpoint = TestEndpoint::new(api, [ModelOutput::text("I see.")].into(), json!({})).await;
        let files = [
            Content::attached_file("my photo.png", "image/png", IMAGE),
            Content::attached_file("report.pdf", "application/pdf", PDF),
            Content::attached_text("notes.md", "Low tide is at ```six```."),
        ];
        let accepted = files.clone().map(|file| endpoint.endpoint.check_content(&file).is_ok());
        let expected = match api {
            Api::DeepSeek => [false, false, true],
            Api::Mistral | Api::Groq | Api::Xai | Api::Vllm | Api::LlamaCpp | Api::Cohere | Api::Ollama => {
                [true, false, true]
            }
            _ => [true, true, true],
        };
        assert_eq!(accepted, expected, "{api:?}");
        let blocks = files.into_iter().chain([Content::text("What is this?")]).map(Block::Content);
        let message = Arc::new(Message::new(Role::User, blocks.collect()));
        let (_, response) = endpoint.ask(ModelRequest { messages: vec![message], ..question("") }).await;
        assert!(response.is_ok(), "{api:?}: {response:?}");
        let requests = endpoint.provider.requests();
        assert_eq!(requests[0].rejection, None, "{api:?}");
        let sent = requests[0].body.to_string();
        assert_eq!([sent.contains(IMAGE), sent.contains(PDF)], accepted[..2], "{api:?}: {sent}");
        assert_eq!(sent.contains("Attached file `my photo.png`:"), accepted[0], "{api:?}: {sent}");
        let text = r"Attached file `notes.md`:\n````\nLow tide is at ```six```.\n````";
        assert!(sent.contains(text) && sent.contains("What is this?"), "{api:?}: {sent}");
        assert_eq!(sent.contains("report.pdf, application/pdf, 52 bytes, omitted"), !accepted[1], "{sent}");
    }
}

#[tokio::test]
async fn the_reason_for_a_rejected_file_is_typed() {
    let endpoint = TestEndpoint::new(Api::Anthropic, [ModelOutput::text("")].into(), json!({})).await;
    let check = |media_type: &str, data: &str| {
        endpoint.endpoint.check_content(&Content::attached_file("a", media_type, data))
    };
    let image_types = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    assert_eq!(
        check("audio/wav", "UklGRgAAAABXQVZF"),
        Err(UnsupportedContent::MediaType {
            media_type: "audio/wav".to_owned(),
            accepted: image_types.iter().chain(&["application/pdf"]).map(|&name| name.to_owned()).collect(),
        })
    );
    assert_eq!(
        check("image/png", "AAAA"),
        Err(UnsupportedContent::OtherType { media_type: "image/png".to_owned() })
    );
    let large = format!("iVBORw0KGgo{}", "A".repeat(8_000_001));
    assert!(matches!(
        check("image/png", &large),
        Err(UnsupportedContent::TooLarge { bytes: 6_000_009, max_bytes: 5_242_880, .. })
    ));
}
