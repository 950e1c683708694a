//! Requests that Gemini accepts and rejects.

use serde_json::{Value, json};
use toolwire_testkit::provider::{API_KEY, Api, ModelOutput};

use crate::client::{PNG, TestRequest, rendered};

/// Returns a turn with two calls and their results, as the fake provider renders it.
fn valid_request() -> TestRequest {
    let output =
        ModelOutput::text("Let me see.").thinking("hm").call("a", "get", "{}").call("b", "put", "{}");
    let body = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hello"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]},
            rendered(Api::Gemini, &output)["candidates"][0]["content"],
            {"role": "user", "parts": [
                {"functionResponse": {"id": "a", "name": "get", "response": {"output": "one"}}},
                {"functionResponse": {"id": "b", "name": "put", "response": {"output": "two"}, "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": PNG}},
                ]}},
            ]},
        ],
        "tools": [{"functionDeclarations": [
            {"name": "get", "description": "Gets.", "parametersJsonSchema": {"type": "object", "properties": {"q": {}}}},
            {"name": "put", "parameters": {"type": "OBJECT", "properties": {"q": {"type": "STRING"}}}},
        ]}],
        "generationConfig": {"maxOutputTokens": 100},
    });
    TestRequest::new("/v1beta/models/gemini-3-pro:generateContent", &[("x-goog-api-key", API_KEY)], body)
}

// The index of the first call, after the thought and the text.
const CALL: usize = 2;

fn error(code: u16, status: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "status": status}})
}

#[track_caller]
fn check_rejected(change: impl FnOnce(&mut TestRequest), status: u16, expected: Value) {
    valid_request().check_rejected(Api::Gemini, change, status, expected);
}

#[track_caller]
fn check(change: impl FnOnce(&mut Value), message: &str) {
    check_rejected(|request| change(&mut request.body), 400, error(400, "INVALID_ARGUMENT", message));
}

#[track_caller]
fn check_accepted(change: impl FnOnce(&mut TestRequest)) {
    valid_request().check_accepted(Api::Gemini, change);
}

fn use_older_model(request: &mut TestRequest) {
    request.path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse".to_owned();
    request.body["contents"][2]["parts"][1]["functionResponse"].as_object_mut().unwrap().remove("parts");
}

#[test]
fn a_valid_request_is_accepted_in_either_spelling() {
    check_accepted(|_| {});
    check_accepted(use_older_model);
    check_accepted(|request| {
        let body = request
            .body
            .to_string()
            .replace("functionResponse", "function_response")
            .replace("mimeType", "mime_type");
        request.body = serde_json::from_str(&body).unwrap();
    });
}

#[test]
fn a_key_is_required() {
    let message = "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other \
                   form of API consumer identity to call this API.";
    let expected = error(403, "PERMISSION_DENIED", message);
    check_rejected(|request| drop(request.headers.remove("x-goog-api-key")), 403, expected);
    let mut expected = error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.");
    expected["error"]["details"] = json!([{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }]);
    check_rejected(|request| request.set_header("x-goog-api-key", "x"), 400, expected);
    check_accepted(|request| {
        request.headers.remove("x-goog-api-key");
        request.path.push_str(&format!("?key={API_KEY}"));
    });
    let expected = error(404, "NOT_FOUND", "Requested entity was not found.");
    check_rejected(|request| request.path = "/v1beta/models/m:generate".to_owned(), 404, expected);
}

#[test]
fn unknown_fields_are_rejected_at_every_level() {
    for (pointer, path) in [
        ("", ""),
        ("/contents/0", "contents[0]"),
        ("/contents/0/parts/0", "contents[0].parts[0]"),
        ("/contents/1/parts/2/functionCall", "contents[1].parts[2].function_call"),
        ("/contents/2/parts/0/functionResponse", "contents[2].parts[0].function_response"),
        ("/generationConfig", "generation_config"),
        ("/tools/0/functionDeclarations/0", "tools[0].function_declarations[0]"),
        ("/tools/0/functionDeclarations/1/parameters", "tools[0].function_declarations[1].parameters"),
    ] {
        let at = if path.is_empty() { String::new() } else { format!(" at '{path}'") };
        let message = format!("Invalid JSON payload received. Unknown name \"foo\"{at}: Cannot find field.");
        let mut expected = error(400, "INVALID_ARGUMENT", &message);
        let violation = json!({"field": path, "description": message});
        expected["error"]["details"] =
            json!([{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]);
        let change = |request: &mut TestRequest| request.body.pointer_mut(pointer).unwrap()["foo"] = 1.into();
        check_rejected(change, 400, expected);
    }
}

#[test]
fn the_roles_are_user_and_model() {
    let change = |body: &mut Value| body["contents"][1]["role"] = "assistant".into();
    check(change, "Please use a valid role: user, model.");
}

#[test]
fn empty_contents_and_parts_are_rejected() {
    let change = |body: &mut Value| body["contents"] = json!([]);
    check(change, "* GenerateContentRequest.contents: contents is not specified\n");
    let change = |body: &mut Value| body["contents"][0]["parts"] = json!([]);
    check(change, "* GenerateContentRequest.contents[0].parts: contents.parts must not be empty.\n");
    let change = |body: &mut Value| body["contents"][0]["parts"][0] = json!({});
    check(
        change,
        "* GenerateContentRequest.contents[0].parts[0].data: required oneof field 'data' must have one initialized field\n",
    );
    let change = |body: &mut Value| body["contents"][1]["parts"][CALL]["text"] = "a".into();
    check(
        change,
        "Invalid value at 'contents[1].parts[2]' (oneof), oneof field 'data' is already set. Cannot set 'functionCall'",
    );
}

#[test]
fn calls_and_results_alternate_and_match() {
    let change = |body: &mut Value| drop(body["contents"].as_array_mut().unwrap().remove(0));
    check(
        change,
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
    );
    let count_mismatch = "Please ensure that the number of function response parts is equal to the number of function call parts of the \
                function call turn.";
    check(|body| drop(body["contents"][2]["parts"].as_array_mut().unwrap().pop()), count_mismatch);
    check(|body| drop(body["contents"].as_array_mut().unwrap().pop()), count_mismatch);
    let add_unmatched_results = |body: &mut Value| {
        let results = body["contents"][2].clone();
        body["contents"].as_array_mut().unwrap().push(results);
    };
    check(
        add_unmatched_results,
        "Please ensure that function response turn comes immediately after a function call turn.",
    );
    let unmatched = "* GenerateContentRequest.contents[2].parts[0].function_response: the function response does not match a \
                     function call of the previous turn.\n";
    check(|body| body["contents"][2]["parts"][0]["functionResponse"]["id"] = "z".into(), unmatched);
    check(|body| body["contents"][2]["parts"][0]["functionResponse"]["name"] = "a".into(), unmatched);
}

#[test]
fn a_function_response_must_be_an_object_without_references() {
    check(
        |body| body["contents"][2]["parts"][0]["functionResponse"]["response"] = "one".into(),
        "Invalid value at 'contents[2].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct), \
         \"one\"",
    );
    let reference = json!({"output": {"$ref": "#/$defs/X"}});
    check(
        |body| body["contents"][2]["parts"][0]["functionResponse"]["response"] = reference,
        "The referenced name `#/$defs/X` in function_response.response does not match to a display_name in the \
         function_response.parts.",
    );
}

#[test]
fn gemini_3_requires_thought_signatures() {
    let message = "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                   correctly, and missing thought_signature may lead to degraded model performance. Additional data, function \
                   call `default_api:get` , position 2. Please refer to \
                   https://ai.google.dev/gemini-api/docs/thought-signatures for more details.";
    let remove_signature = |body: &mut Value| {
        drop(body["contents"][1]["parts"][CALL].as_object_mut().unwrap().remove("thoughtSignature"))
    };
    check(remove_signature, message);
    let with_signature = |signature: &'static str| {
        move |body: &mut Value| body["contents"][1]["parts"][CALL]["thoughtSignature"] = signature.into()
    };
    check(with_signature("c2lnbmF0dXJl"), "Corrupted thought signature.");
    check_accepted(|request| with_signature("skip_thought_signature_validator")(&mut request.body));
    // Earlier models and earlier turns do not need signatures.
    check_accepted(|request| {
        remove_signature(&mut request.body);
        use_older_model(request);
    });
    check_accepted(|request| {
        remove_signature(&mut request.body);
        let contents = request.body["contents"].as_array_mut().unwrap();
        contents.push(json!({"role": "model", "parts": [{"text": "Done."}]}));
        contents.push(json!({"role": "user", "parts": [{"text": "Thanks."}]}));
    });
}

#[test]
fn media_types_are_checked() {
    let change =
        |body: &mut Value| body["contents"][0]["parts"][1]["inlineData"]["mimeType"] = "image/svg+xml".into();
    check(change, "Unsupported MIME type: image/svg+xml");
    let change = |body: &mut Value| body["contents"][0]["parts"][1]["inlineData"]["data"] = "aGVsbG8=".into();
    check(change, "Unable to process input image.");
    let expected =
        error(400, "INVALID_ARGUMENT", "Multimodal function responses are not supported by this model.");
    let change =
        |request: &mut TestRequest| request.path = "/v1beta/models/gemini-2.5-pro:generateContent".to_owned();
    check_rejected(change, 400, expected);
}

#[test]
fn declarations_are_checked() {
    let change_first = |change: fn(&mut Value)| {
        move |body: &mut Value| change(&mut body["tools"][0]["functionDeclarations"][0])
    };
    check(
        change_first(|declaration| declaration["name"] = "2fa".into()),
        "* GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name. Must start with a letter or an \
         underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum \
         length of 64.\n",
    );
    check(
        change_first(|declaration| declaration["name"] = "put".into()),
        "Duplicate function declaration found: put",
    );
    let too_many = |body: &mut Value| {
        let declaration = body["tools"][0]["functionDeclarations"][0].clone();
        body["tools"][0]["functionDeclarations"] = vec![declaration; 513].into();
    };
    check(
        too_many,
        "tools[0].function_declarations: [FIELD_INVALID] At most 512 function declarations can be specified.",
    );
    check(
        change_first(|declaration| declaration["parameters"] = json!({"type": "OBJECT"})),
        "* GenerateContentRequest.tools[0].function_declarations[0]: only one of `parameters` and `parametersJsonSchema` may be \
         set.\n",
    );
    check(
        change_first(|declaration| declaration["parametersJsonSchema"]["required"] = json!(["model"])),
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters_json_schema.required: required fields ['model'] \
         are not defined in the schema properties\n",
    );
}

#[test]
fn parameters_allow_only_the_keywords_of_the_protobuf_schema() {
    let with_property = |property: Value| {
        move |body: &mut Value| {
            body["tools"][0]["functionDeclarations"][1]["parameters"]["properties"]["q"] = property;
        }
    };
    let path = "tools[0].function_declarations[1].parameters";
    let error_at = |suffix: &str| format!("* GenerateContentRequest.{path}.properties[q]{suffix}\n");
    check(
        with_property(json!({"type": ["string", "null"]})),
        &format!(
            "Invalid JSON payload received. Unknown name \"type\" at '{path}.properties[q]': Proto field is not repeating, cannot \
             start list."
        ),
    );
    check(with_property(json!({"type": "array"})), &error_at(".items: missing field."));
    check(
        with_property(json!({"type": "object"})),
        &error_at(".properties: should be non-empty for OBJECT type"),
    );
    check(
        with_property(json!({"type": "string", "format": "uri"})),
        &error_at(".format: only 'enum' and 'date-time' are supported for STRING type"),
    );
    check(
        with_property(json!({"type": "integer", "enum": ["1"]})),
        &error_at(".enum: only allowed for STRING type"),
    );
    check(
        with_property(json!({"type": "string", "items": {"type": "string"}})),
        &error_at(".items: field predicate failed: == Type.ARRAY"),
    );
    check(
        with_property(json!({"type": "integer", "enum": [0]})),
        &format!("Invalid value at '{path}.properties[q].enum[0]' (TYPE_STRING), 0"),
    );
}

#[test]
fn tool_choice_is_checked() {
    let with_config =
        |config: Value| move |body: &mut Value| body["toolConfig"] = json!({"functionCallingConfig": config});
    check_accepted(|request| {
        with_config(json!({"mode": "ANY", "allowedFunctionNames": ["get"]}))(&mut request.body)
    });
    check(
        with_config(json!({"mode": "REQUIRED"})),
        "Invalid value at 'tool_config.function_calling_config.mode' \
         (type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), \"REQUIRED\"",
    );
    check(
        with_config(json!({"mode": "AUTO", "allowedFunctionNames": ["get"]})),
        "Allowed function names should only be set when function calling mode is ANY or VALIDATED.",
    );
    let without_tools = |body: &mut Value| {
        with_config(json!({"mode": "ANY"}))(body);
        body["tools"] = json!([]);
    };
    check(without_tools, "Function calling config is set without function_declarations.");
}

#[test]
fn older_models_accept_either_tools_or_a_response_format() {
    let form = |request: &mut TestRequest| {
        request.body["generationConfig"] =
            json!({"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}});
    };
    check_accepted(form);
    let message = "Function calling with a response mime type: 'application/json' is unsupported";
    check_rejected(
        |request| {
            use_older_model(request);
            form(request);
        },
        400,
        error(400, "INVALID_ARGUMENT", message),
    );
    check(
        |body| body["generationConfig"] = json!({"responseJsonSchema": {"type": "object"}}),
        "* GenerateContentRequest.generation_config.response_schema: only allowed when response_mime_type is \
         'application/json'\n",
    );
}
