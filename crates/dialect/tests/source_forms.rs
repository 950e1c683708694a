//! Definitions of every API, read in the form of every other: none loses its arguments.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_dialect::{Dialect, Options, Status, Toolset, check_definition, convert};

fn read_as(text: &str, from: Dialect) -> (Status, String, String) {
    let conversion = convert(text, from, Dialect::Anthropic, &Options::default()).unwrap();
    let report = &conversion.reports[0];
    let message = report.reason.as_ref().map(|reason| reason.message.clone()).unwrap_or_default();
    (report.status, message, conversion.definitions.unwrap_or_default())
}

#[test]
fn arguments_are_read_or_the_tool_is_refused_with_a_hint() {
    let tool = json!([{"name": "get", "description": "d", "inputSchema": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]);
    let readable: Vec<Dialect> = Dialect::all().filter(|dialect| dialect.is_readable()).collect();
    for written in &readable {
        let text = convert(&tool.to_string(), Dialect::Mcp, *written, &Options::default()).unwrap();
        let text = text.definitions.unwrap();
        let single = serde_json::from_str::<Value>(&text).unwrap()[0].to_string();
        for from in &readable {
            for text in [&text, &single, &format!("{{\"tools\": {text}}}")] {
                let (status, message, definitions) = read_as(text, *from);
                if status == Status::Refused {
                    assert_ne!(written, from, "{message}");
                    assert!(message.contains(&format!("is a definition for `{written}`, not ")), "{message}");
                    assert!(message.contains(&format!("--from {written}")), "{message}");
                } else {
                    assert!(definitions.contains("city"), "{written} as {from}: {definitions}");
                }
            }
        }
    }
}

#[test]
fn a_definition_without_its_wrapper_is_recognized() {
    let bedrock =
        json!({"name": "get", "inputSchema": {"json": {"type": "object", "properties": {"q": {}}}}});
    let (status, message, _) = read_as(&bedrock.to_string(), Dialect::Mcp);
    assert_eq!(status, Status::Refused);
    assert!(message.contains("`toolwire convert --from bedrock --to mcp` converts it"), "{message}");
    let (status, _, definitions) = read_as(&bedrock.to_string(), Dialect::Bedrock);
    assert!(status != Status::Refused && definitions.contains("\"q\""), "{definitions}");
}

#[test]
fn a_missing_schema_does_not_mean_that_there_are_no_arguments() {
    for (text, from, expected) in [
        (json!({"name": "get", "input_schema": null}), Dialect::Mcp, "definition for `anthropic`"),
        (json!({"name": "get", "input_schema": null}), Dialect::Anthropic, "is not a definition"),
        (json!({"type": "web_search_20250305", "name": "web_search"}), Dialect::Mcp, "it has no schema"),
        (
            json!({"type": "web_search_20250305", "name": "web_search"}),
            Dialect::Anthropic,
            "it has no schema",
        ),
        (json!({"type": "web_search", "name": "x"}), Dialect::Responses, "it has no schema"),
        (json!({"type": "custom", "name": "x", "format": {"type": "text"}}), Dialect::Responses, "no schema"),
        (json!({"toolSpec": {"name": "get", "inputSchema": {}}}), Dialect::Bedrock, "is not a definition"),
    ] {
        let (status, message, _) = read_as(&text.to_string(), from);
        assert!(status == Status::Refused && message.contains(expected), "{text}: {status:?} {message}");
    }
}

#[test]
fn functions_may_have_no_parameters() {
    for (text, from) in [
        (json!({"name": "ping"}), Dialect::Mcp),
        (json!({"type": "function", "function": {"name": "ping"}}), Dialect::OpenAi),
        (json!({"type": "function", "name": "ping", "parameters": null}), Dialect::Responses),
        (json!({"functionDeclarations": [{"name": "ping"}]}), Dialect::Gemini),
    ] {
        let (status, message, _) = read_as(&text.to_string(), from);
        assert_ne!(status, Status::Refused, "{text}: {message}");
    }
}

#[test]
fn a_schema_in_an_unusual_place_is_used_and_reported_or_refused() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    for from in [Dialect::Mcp, Dialect::Gemini] {
        for key in ["schema", "arguments"] {
            let detail = format!("read the schema under `{key}`");
            let text = json!({"name": "get", "description": "d", key: schema}).to_string();
            for to in [Dialect::Anthropic, Dialect::Mcp] {
                let conversion = convert(&text, from, to, &Options::default()).unwrap();
                let definitions: Value = serde_json::from_str(&conversion.definitions.unwrap()).unwrap();
                let written = definitions.get("inputSchema").or(definitions.get("input_schema"));
                assert_eq!(written, Some(&schema), "{text} to {to}");
                assert_eq!(conversion.reports[0].status, Status::Rewritten);
                assert_eq!(conversion.reports[0].changes[0].detail, detail);
            }
        }
        for (key, value) in [
            ("parameter_definitions", json!({"city": {"type": "str", "required": true}})),
            ("args_schema", schema.clone()),
            ("arguments", json!({"city": {"type": "string"}, "n": {"type": "integer"}})),
        ] {
            let text = json!({"name": "get", "description": "d", key: value}).to_string();
            let (status, message, _) = read_as(&text, from);
            assert_eq!(status, Status::Refused, "{text}");
            assert!(message.contains(&format!("in `{key}`; write a JSON Schema")), "{message}");
        }
        let two = json!({"name": "get", "schema": schema, "arguments": schema}).to_string();
        assert_eq!(read_as(&two, from).0, Status::Refused);
    }
    let tool =
        json!({"name": "get", "schema": schema, "inputSchema": null, "annotations": {"readOnlyHint": true}});
    let conversion = convert(&tool.to_string(), Dialect::Mcp, Dialect::Mcp, &Options::default()).unwrap();
    let written: Value = serde_json::from_str(&conversion.definitions.unwrap()).unwrap();
    let expected = json!({"name": "get", "inputSchema": schema, "annotations": {"readOnlyHint": true}});
    assert_eq!(written, expected);
    for other in [
        json!({"name": "ping", "outputSchema": schema}),
        json!({"name": "ping", "output_schema": schema, "_meta": {"a": {"type": "x"}}}),
        json!({"name": "ping", "annotations": {"readOnlyHint": true}, "tags": {}}),
    ] {
        let (status, message, _) = read_as(&other.to_string(), Dialect::Mcp);
        assert_ne!(status, Status::Refused, "{other}: {message}");
    }
}

#[test]
fn a_refused_tool_is_named() {
    let tool = json!({"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}});
    for (text, entry) in
        [(tool.to_string(), "the tool is"), (json!([tool]).to_string(), "tool 1 of the list is")]
    {
        let conversion = convert(&text, Dialect::Mcp, Dialect::Anthropic, &Options::default()).unwrap();
        let report = &conversion.reports[0];
        assert_eq!(report.tool, "get");
        let message = &report.reason.as_ref().unwrap().message;
        assert!(message.starts_with(&format!("{entry} a definition for `openai`")), "{message}");
    }
}

/// Servers list tools as values, which are read in the same way as text.
#[test]
fn tools_of_servers_do_not_lose_their_arguments() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    for (fields, found) in [
        (json!({"input_schema": schema}), "anthropic"),
        (json!({"type": "function", "parameters": schema}), "responses"),
        (json!({"parameters": schema}), "gemini"),
        (json!({"parametersJsonSchema": schema}), "gemini"),
        (json!({"inputSchema": {"json": schema}}), "bedrock"),
        (json!({"args_schema": schema}), ""),
        (json!({"schema": schema}), "used"),
        (json!({"arguments": schema, "inputSchema": null}), "used"),
        (json!({"annotations": {"title": "t"}, "execution": {}}), "none"),
    ] {
        let mut value = json!({"name": "get", "description": "d"});
        value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let tool = Tool::try_from(value).unwrap();
        let is_expected = |message: &str| match found {
            "" => message.contains("described in `args_schema`"),
            _ => message.contains(&format!("is a definition for `{found}`, not an MCP tool")),
        };
        let checked = check_definition(&tool).map_err(|refusal| refusal.message);
        for dialect in Dialect::all() {
            let toolset = Toolset::new(std::slice::from_ref(&tool), dialect, &Options::default());
            let report = &toolset.reports()[0];
            match (found, &checked) {
                ("used" | "none", Ok(())) => {
                    assert_ne!(report.status, Status::Refused, "{dialect}: {report:?}");
                    let definition = toolset.definitions()[0].to_string();
                    assert_eq!(definition.contains("city"), found == "used", "{dialect}: {definition}");
                    let decoded = toolset.decode("get", &json!({"city": 5}));
                    assert_eq!(decoded.is_ok(), found == "none", "{dialect}: {decoded:?}");
                }
                (_, Err(message)) => {
                    assert!(is_expected(message), "{message}");
                    let message = &report.reason.as_ref().unwrap().message;
                    assert!(is_expected(message), "{dialect}: {message}");
                    assert_eq!(toolset.definitions(), Vec::<&Value>::new(), "{dialect}");
                }
                _ => panic!("{fields}: {checked:?}"),
            }
        }
    }
}
