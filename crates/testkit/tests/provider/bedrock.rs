//! Requests that Bedrock's Converse accepts and rejects.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use serde_json::{Value, json};
use toolwire_testkit::provider::{
    ACCESS_KEY, Api, FakeProvider, ModelOutput, SECRET_KEY, Script, check_request,
};

use crate::client::{JPEG, PNG, TestRequest, bearer, rendered, send};

/// Returns a turn with thinking, two calls and their results, as the fake provider renders it.
fn valid_request() -> TestRequest {
    let output = ModelOutput::text("Let me see.").thinking("hm").call("tooluse_a", "get", "{}").call(
        "tooluse_b",
        "get",
        "{}",
    );
    let body = json!({
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "hello"}]},
            rendered(Api::Bedrock, &output)["output"]["message"],
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
    TestRequest::new("/model/anthropic.claude-v1%3A0/converse", &[("authorization", &bearer())], body)
}

// The index of the first call, after the reasoning and the text.
const CALL: usize = 2;

/// Returns the error type, the status and the body of the rejection, if there is one.
fn rejection(request: &TestRequest) -> Option<(String, u16, Value)> {
    let rejection = check_request(Api::Bedrock, &request.headers, &request.path, &request.body).err()?;
    let (name, kind) = rejection.headers.into_iter().next().unwrap();
    assert_eq!(name, "x-amzn-errortype");
    Some((kind, rejection.status, rejection.body))
}

#[track_caller]
fn check_rejected(change: impl FnOnce(&mut TestRequest), kind: &str, status: u16, message: &str) {
    let mut request = valid_request();
    change(&mut request);
    assert_eq!(rejection(&request), Some((kind.to_owned(), status, json!({"message": message}))));
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str) {
    check_rejected(|request| change(&mut request.body), "ValidationException", 400, message);
}

fn results(body: &mut Value) -> &mut Vec<Value> {
    body["messages"][2]["content"].as_array_mut().unwrap()
}

/// Signs a request with AWS's own signer.
fn signed(provider: &FakeProvider, secret: &str, mut request: TestRequest) -> TestRequest {
    let host = provider.origin().replace("http://", "");
    request.set_header("host", &host);
    request.headers.remove("authorization");
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
    let body = request.body.to_string();
    let url = format!("{}{}", provider.origin(), request.path);
    let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let signable = SignableRequest::new("POST", url, headers, SignableBody::Bytes(body.as_bytes())).unwrap();
    let instructions = sign(signable, &params).unwrap().into_parts().0;
    for (name, value) in instructions.headers() {
        request.set_header(name, value);
    }
    request
}

#[tokio::test]
async fn the_signature_is_verified() {
    let provider = FakeProvider::start(Api::Bedrock, Script::from([ModelOutput::text("hello")])).await;
    let forbidden =
        |kind: &'static str, message: &'static str| (403, kind.to_owned(), json!({"message": message}));
    let respond = async |request: TestRequest| {
        let response = send(&provider, &request).await.unwrap();
        let kind = response.headers().get("x-amzn-errortype").map(|kind| kind.to_str().unwrap().to_owned());
        (response.status().as_u16(), kind.unwrap_or_default(), response.json::<Value>().await.unwrap())
    };
    let mismatch = forbidden(
        "InvalidSignatureException",
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and \
         signing method. Consult the service documentation for details.",
    );
    assert_eq!(respond(signed(&provider, "another secret", valid_request())).await, mismatch);
    let mut altered = signed(&provider, SECRET_KEY, valid_request());
    altered.body["inferenceConfig"]["maxTokens"] = 7.into();
    assert_eq!(respond(altered).await, mismatch);
    let mut other_path = signed(&provider, SECRET_KEY, valid_request());
    other_path.path = "/model/other/converse".to_owned();
    assert_eq!(respond(other_path).await, mismatch);
    assert_eq!(respond(signed(&provider, SECRET_KEY, valid_request())).await.0, 200);
}

#[test]
fn a_valid_request_is_accepted() {
    valid_request().check_accepted(Api::Bedrock, |_| {});
}

#[test]
fn a_valid_key_or_signature_is_required() {
    check_rejected(
        |request| drop(request.headers.remove("authorization")),
        "MissingAuthenticationTokenException",
        403,
        "Missing Authentication Token",
    );
    check_rejected(
        |request| request.set_header("authorization", "Bearer x"),
        "AccessDeniedException",
        403,
        "Authentication failed: Please make sure your API Key is valid.",
    );
    let scope = "20261116/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=00";
    check_rejected(
        |request| request.set_header("authorization", &format!("AWS4-HMAC-SHA256 Credential=AKID/{scope}")),
        "IncompleteSignatureException",
        403,
        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
    );
    let with_date = |request: &mut TestRequest| {
        request.set_header("authorization", &format!("AWS4-HMAC-SHA256 Credential=AKID/{scope}"));
        request.set_header("x-amz-date", "20261116T120000Z");
    };
    check_rejected(
        with_date,
        "UnrecognizedClientException",
        403,
        "The security token included in the request is invalid.",
    );
}

#[test]
fn unknown_fields_are_rejected_at_every_level() {
    for (pointer, path) in [
        ("", "foo"),
        ("/messages/0", "messages.0.foo"),
        ("/messages/0/content/0", "messages.0.content.0.foo"),
        ("/messages/1/content/2/toolUse", "messages.1.content.2.toolUse.foo"),
        ("/messages/2/content/0/toolResult", "messages.2.content.0.toolResult.foo"),
        ("/toolConfig/tools/0/toolSpec", "toolConfig.tools.0.toolSpec.foo"),
        ("/inferenceConfig", "inferenceConfig.foo"),
    ] {
        let change = |request: &mut TestRequest| request.body.pointer_mut(pointer).unwrap()["foo"] = 1.into();
        let message = format!("'{path}' is not a member of the service model");
        check_rejected(change, "SerializationException", 400, &message);
    }
}

#[test]
fn user_and_assistant_alternate() {
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
    let add_result = |body: &mut Value| {
        let mut result = results(body)[0].clone();
        result["toolResult"]["toolUseId"] = "other".into();
        results(body).push(result);
    };
    check(
        add_result,
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
fn ids_are_checked() {
    let path = "messages.2.member.content.3.member.toolUse.toolUseId";
    let with_id = |id: String| {
        move |body: &mut Value| body["messages"][1]["content"][CALL]["toolUse"]["toolUseId"] = id.into()
    };
    check(
        with_id("a b".to_owned()),
        &format!(
            "1 validation error detected: Value 'a b' at '{path}' failed to satisfy constraint: Member must satisfy regular \
             expression pattern: [a-zA-Z0-9_.:-]+"
        ),
    );
    let long = "x".repeat(65);
    check(
        with_id(long.clone()),
        &format!(
            "1 validation error detected: Value '{long}' at '{path}' failed to satisfy constraint: Member must have length less \
             than or equal to 64"
        ),
    );
}

#[test]
fn blank_content_is_rejected() {
    let blank = |path: &str| {
        format!(
            "The text field in the ContentBlock object at {path} is blank. Add text to the text field, and try again."
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
fn json_and_input_must_be_objects() {
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
fn an_image_matches_its_format() {
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
fn thinking_must_be_unaltered() {
    check(
        |body| body["messages"][1]["content"][0]["reasoningContent"]["reasoningText"]["text"] = "hm!".into(),
        "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
    );
}

#[test]
fn tools_are_checked() {
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
    let none = |request: &mut TestRequest| request.body["toolConfig"]["toolChoice"] = json!({"none": {}});
    let message = "'toolConfig.toolChoice.none' is not a member of the service model";
    check_rejected(none, "SerializationException", 400, message);
}
