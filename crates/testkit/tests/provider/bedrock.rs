//! What Bedrock's Converse takes and refuses.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use serde_json::{Value, json};
use toolwire_testkit::provider::{ACCESS_KEY, Api, Provider, SECRET_KEY, Said, Script, judge, render};

use crate::client::{Asked, JPEG, PNG, bearer, send};

/// A turn with thinking, two calls and their results, as the server itself wrote it.
fn good() -> Asked {
    let said = Said::text("Let me see.").thinking("hm").call("tooluse_a", "get", "{}").call(
        "tooluse_b",
        "get",
        "{}",
    );
    let answer: Value = serde_json::from_slice(&render(Api::Bedrock, &said, false)[0]).unwrap();
    let body = json!({
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "hello"}]},
            answer["output"]["message"],
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "tooluse_b", "content": [{"json": {"a": 1}}], "status": "success"}},
                {"toolResult": {"toolUseId": "tooluse_a", "content": [
                    {"image": {"format": "png", "source": {"bytes": PNG}}},
                ]}},
            ]},
        ],
        "toolConfig": {
            "tools": [{"toolSpec": {
                "name": "get", "description": "Gets.", "inputSchema": {"json": {"type": "object", "properties": {}}},
            }}],
            "toolChoice": {"auto": {}},
        },
        "inferenceConfig": {"maxTokens": 100},
    });
    Asked::new("/model/anthropic.claude-v1%3A0/converse", &[("authorization", &bearer())], body)
}

// Where the first call is in the answer, behind the thought and the text.
const CALL: usize = 2;

/// The kind of the error, its status and its message.
fn judged(asked: &Asked) -> Option<(String, u16, Value)> {
    let refusal = judge(Api::Bedrock, &asked.headers, &asked.path, &asked.body).err()?;
    let (name, kind) = refusal.headers.into_iter().next().unwrap();
    assert_eq!(name, "x-amzn-errortype");
    Some((kind, refusal.status, refusal.body))
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut Asked), kind: &str, status: u16, message: &str) {
    let mut asked = good();
    change(&mut asked);
    assert_eq!(judged(&asked), Some((kind.to_owned(), status, json!({"message": message}))));
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str) {
    check_refused(|asked| change(&mut asked.body), "ValidationException", 400, message);
}

fn results(body: &mut Value) -> &mut Vec<Value> {
    body["messages"][2]["content"].as_array_mut().unwrap()
}

/// Signs a request to a provider as AWS's own signer does.
fn signed(provider: &Provider, secret: &str, mut asked: Asked) -> Asked {
    let host = provider.origin().replace("http://", "");
    asked.header("host", &host);
    asked.headers.remove("authorization");
    let identity = Credentials::new(ACCESS_KEY, secret, None, None, "test").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("bedrock")
        .time(SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000))
        .settings(SigningSettings::default())
        .build()
        .unwrap()
        .into();
    let body = asked.body.to_string();
    let url = format!("{}{}", provider.origin(), asked.path);
    let headers = asked.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let request = SignableRequest::new("POST", url, headers, SignableBody::Bytes(body.as_bytes())).unwrap();
    let instructions = sign(request, &params).unwrap().into_parts().0;
    for (name, value) in instructions.headers() {
        asked.header(name, value);
    }
    asked
}

#[tokio::test]
async fn a_signature_is_computed_again() {
    let provider = Provider::start(Api::Bedrock, Script::from([Said::text("hello")])).await;
    let refused =
        |kind: &'static str, message: &'static str| (403, kind.to_owned(), json!({"message": message}));
    let answer = async |asked: Asked| {
        let response = send(&provider, &asked).await.unwrap();
        let kind = response.headers().get("x-amzn-errortype").map(|kind| kind.to_str().unwrap().to_owned());
        (response.status().as_u16(), kind.unwrap_or_default(), response.json::<Value>().await.unwrap())
    };
    let mismatch = refused(
        "InvalidSignatureException",
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and \
         signing method. Consult the service documentation for details.",
    );
    assert_eq!(answer(signed(&provider, "another secret", good())).await, mismatch);
    let mut altered = signed(&provider, SECRET_KEY, good());
    altered.body["inferenceConfig"]["maxTokens"] = 7.into();
    assert_eq!(answer(altered).await, mismatch);
    let mut elsewhere = signed(&provider, SECRET_KEY, good());
    elsewhere.path = "/model/other/converse".to_owned();
    assert_eq!(answer(elsewhere).await, mismatch);
    assert_eq!(answer(signed(&provider, SECRET_KEY, good())).await.0, 200);
}

#[test]
fn a_good_request_is_taken() {
    assert_eq!(judged(&good()), None);
}

#[test]
fn who_asks_must_be_known() {
    check_refused(
        |asked| drop(asked.headers.remove("authorization")),
        "MissingAuthenticationTokenException",
        403,
        "Missing Authentication Token",
    );
    check_refused(
        |asked| asked.header("authorization", "Bearer x"),
        "AccessDeniedException",
        403,
        "Authentication failed: Please make sure your API Key is valid.",
    );
    let scope = "20261116/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=00";
    check_refused(
        |asked| asked.header("authorization", &format!("AWS4-HMAC-SHA256 Credential=AKID/{scope}")),
        "IncompleteSignatureException",
        403,
        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
    );
    let dated = |asked: &mut Asked| {
        asked.header("authorization", &format!("AWS4-HMAC-SHA256 Credential=AKID/{scope}"));
        asked.header("x-amz-date", "20261116T120000Z");
    };
    check_refused(
        dated,
        "UnrecognizedClientException",
        403,
        "The security token included in the request is invalid.",
    );
}

#[test]
fn unknown_fields_are_refused_at_every_level() {
    for (pointer, way) in [
        ("", "foo"),
        ("/messages/0", "messages.0.foo"),
        ("/messages/0/content/0", "messages.0.content.0.foo"),
        ("/messages/1/content/2/toolUse", "messages.1.content.2.toolUse.foo"),
        ("/messages/2/content/0/toolResult", "messages.2.content.0.toolResult.foo"),
        ("/toolConfig/tools/0/toolSpec", "toolConfig.tools.0.toolSpec.foo"),
        ("/inferenceConfig", "inferenceConfig.foo"),
    ] {
        let change = |asked: &mut Asked| asked.body.pointer_mut(pointer).unwrap()["foo"] = 1.into();
        let message = format!("'{way}' is not a member of the service model");
        check_refused(change, "SerializationException", 400, &message);
    }
}

#[test]
fn user_and_assistant_take_turns() {
    check(
        |body| drop(body["messages"].as_array_mut().unwrap().remove(0)),
        "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
    );
    check(
        |body| {
            body["messages"]
                .as_array_mut()
                .unwrap()
                .insert(1, json!({"role": "user", "content": [{"text": "and?"}]}));
        },
        "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and \
         assistant roles and try again.",
    );
    check(
        |body| body["messages"][0]["role"] = "system".into(),
        "1 validation error detected: Value 'system' at 'messages.1.member.role' failed to satisfy constraint: Member must \
         satisfy enum value set: [user, assistant]",
    );
}

#[test]
fn calls_and_results_are_paired() {
    check(
        |body| drop(results(body).remove(0)),
        "Expected toolResult blocks at messages.2.content for the following Ids: tooluse_b",
    );
    check(
        |body| results(body)[0]["toolResult"]["toolUseId"] = "other".into(),
        "Expected toolResult blocks at messages.2.content for the following Ids: tooluse_b",
    );
    let extra = |body: &mut Value| {
        let mut result = results(body)[0].clone();
        result["toolResult"]["toolUseId"] = "other".into();
        results(body).push(result);
    };
    check(
        extra,
        "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn.",
    );
    check(
        |body| results(body)[0]["toolResult"]["toolUseId"] = "tooluse_a".into(),
        "The toolResult blocks at messages.2.content contain duplicate Ids: tooluse_a",
    );
    check(
        |body| drop(body.as_object_mut().unwrap().remove("toolConfig")),
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    );
}

#[test]
fn ids_fit() {
    let at = "messages.2.member.content.3.member.toolUse.toolUseId";
    let id = |id: String| {
        move |body: &mut Value| body["messages"][1]["content"][CALL]["toolUse"]["toolUseId"] = id.into()
    };
    check(
        id("a b".to_owned()),
        &format!(
            "1 validation error detected: Value 'a b' at '{at}' failed to satisfy constraint: Member must satisfy regular \
             expression pattern: [a-zA-Z0-9_.:-]+"
        ),
    );
    let long = "x".repeat(65);
    check(
        id(long.clone()),
        &format!(
            "1 validation error detected: Value '{long}' at '{at}' failed to satisfy constraint: Member must have length less \
             than or equal to 64"
        ),
    );
}

#[test]
fn nothing_is_blank() {
    let blank = |way: &str| {
        format!(
            "The text field in the ContentBlock object at {way} is blank. Add text to the text field, and try again."
        )
    };
    check(|body| body["messages"][0]["content"][0]["text"] = " ".into(), &blank("messages.0.content.0"));
    check(
        |body| results(body)[0]["toolResult"]["content"] = json!([{"text": ""}]),
        &blank("messages.2.content.0.toolResult.content.0"),
    );
    check(
        |body| body["messages"][0]["content"] = json!([]),
        "The content field in the Message object at messages.0 is empty. Add a ContentBlock object to the content field and try \
         again.",
    );
    check(
        |body| {
            results(body)[0]["toolResult"] =
                json!({"toolUseId": "tooluse_b", "content": [], "status": "error"});
        },
        "The content field at messages.2.content.0.toolResult cannot be empty when status value is error.",
    );
}

#[test]
fn json_and_input_are_objects() {
    check(
        |body| results(body)[0]["toolResult"]["content"][0]["json"] = json!([1]),
        "The format of the value at messages.2.content.0.toolResult.content.0.json is invalid. Provide a json object for the \
         field and try again.",
    );
    check(
        |body| body["messages"][1]["content"][CALL]["toolUse"]["input"] = "{}".into(),
        "The format of the value at messages.1.content.2.toolUse.input is invalid. Provide a json object for the field and try \
         again.",
    );
}

#[test]
fn an_image_is_what_it_says() {
    check(
        |body| results(body)[1]["toolResult"]["content"][0]["image"]["format"] = "svg".into(),
        "1 validation error detected: Value 'svg' at \
         'messages.3.member.content.2.member.toolResult.content.1.member.image.format' failed to satisfy constraint: Member must \
         satisfy enum value set: [png, jpeg, gif, webp]",
    );
    check(
        |body| results(body)[1]["toolResult"]["content"][0]["image"]["source"]["bytes"] = JPEG.into(),
        "The model returned the following errors: messages.2.content.1.toolResult.content.0.image.source.base64.data: Image \
         does not match the provided media type image/png",
    );
}

#[test]
fn thinking_comes_back_unaltered() {
    check(
        |body| body["messages"][1]["content"][0]["reasoningContent"]["reasoningText"]["text"] = "hm!".into(),
        "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
    );
}

#[test]
fn tools_fit() {
    let tool = |change: fn(&mut Value)| {
        move |body: &mut Value| change(&mut body["toolConfig"]["tools"][0]["toolSpec"])
    };
    check(
        |body| body["toolConfig"]["tools"] = json!([]),
        "1 validation error detected: Value '[]' at 'toolConfig.tools' failed to satisfy constraint: Member must have length \
         greater than or equal to 1",
    );
    check(
        tool(|tool| tool["name"] = "a.b".into()),
        "1 validation error detected: Value 'a.b' at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: \
         Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+",
    );
    check(
        tool(|tool| tool["description"] = "".into()),
        "1 validation error detected: Value '' at 'toolConfig.tools.1.member.toolSpec.description' failed to satisfy constraint: \
         Member must have length greater than or equal to 1",
    );
    check(
        tool(|tool| tool["inputSchema"]["json"] = json!({})),
        "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object.",
    );
    check(
        tool(|tool| tool["inputSchema"]["json"]["properties"] = Value::Null),
        "The json schema definition at toolConfig.tools.0.toolSpec.inputSchema is invalid. Fix the following errors and try \
         again: $.properties: null found, object expected",
    );
    let none = |asked: &mut Asked| asked.body["toolConfig"]["toolChoice"] = json!({"none": {}});
    let message = "'toolConfig.toolChoice.none' is not a member of the service model";
    check_refused(none, "SerializationException", 400, message);
}
