//! Tests of the search.

use serde_json::json;

use super::*;

fn facts(body: &str) -> BodyFacts {
    BodyFacts::of(body.as_bytes()).expect("a body")
}

/// A response of the gateway has such blocks if the model has no signatures, or if a server's tool was
/// called.
#[test]
fn blocks_of_the_gateway_are_found() {
    let found = |block: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"assistant","content":[{block},{{"type":"text","text":"thinking"}}]}}]}}"#
        );
        facts(&body).has_gateway_blocks
    };
    for block in [
        r#"{"type":"thinking","thinking":"hm","signature":""}"#,
        r#"{"type":"thinking","thinking":"hm"}"#,
        r#"{"signature":null,"type":"thin\u006bing","thinking":"hm"}"#,
        r#"{"type":"mcp_tool_use","id":"mcptoolu_1","name":"a","server_name":"s","input":{}}"#,
        r#"{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","content":[]}"#,
    ] {
        assert!(found(block), "{block}");
    }
    for block in [
        r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#,
        r#"{"type":"redacted_thinking","data":"YQ"}"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"a","input":{"type":"thinking"}}"#,
    ] {
        assert!(!found(block), "{block}");
    }
}

#[test]
fn references_to_stored_data_are_found_in_every_spelling() {
    for (body, key) in [
        (r#"{"previous_response_id":"resp_1"}"#, "previous_response_id"),
        (r#"{"conversation":"conv_1"}"#, "conversation"),
        (r#"{"conversation":{"id":"conv_1"}}"#, "conversation"),
        (r#"{"prompt":{"id":"pmpt_1","version":"2"}}"#, "prompt"),
        (r#"{"container":"container_1"}"#, "container"),
        (r#"{"container":{"id":"container_1"}}"#, "container"),
        (r#"{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}"#, "file_id"),
        (
            r#"{"input":[{"role":"user","content":[{"type":"input_file","\u0066ile_id":"file-1"}]}]}"#,
            "file_id",
        ),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}"#,
            "file_id",
        ),
        (r#"{"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]}"#, "audio"),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]}"#,
            "file_id",
        ),
        (r#"{"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}"#, "vector_store_ids"),
        (r#"{"tools":[{"type":"code_interpreter","container":"cntr_1"}]}"#, "container"),
        (
            r#"{"tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}]}"#,
            "file_ids",
        ),
        (r#"{"input":[{"type":"code_interpreter_call","container_id":"cntr_1"}]}"#, "container_id"),
        (r#"{"input":[{"type":"image_generation_call","id":"ig_1"}]}"#, "image_generation_call"),
        (
            r#"{"input":[{"id":"ig_1","result":null,"type":"image_generation_call"}]}"#,
            "image_generation_call",
        ),
        (r#"{"container":{"skills":[{"type":"custom","skill_id":"skill_1"}]}}"#, "skill_id"),
        (
            r#"{"tools":[{"type":"shell","environment":{"skills":[{"type":"skill_reference","skill_id":"skill_1"}]}}]}"#,
            "skill_id",
        ),
        (r#"{"input":[{"role":"user","content":[{"type":"input_file","File_ID":"file-1"}]}]}"#, "file_id"),
    ] {
        assert_eq!(facts(body).provider_state, Some(key), "{body}");
    }
}

#[test]
fn other_data_may_have_the_same_keys() {
    let schema = json!({"type": "object", "properties": {"file_id": {"type": "string", "default": "x"}}});
    for body in [
        json!({"previous_response_id": null, "conversation": null, "container": null}),
        json!({"prompt": "A picture of a file_id"}),
        json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}),
        json!({"tools": [{"type": "function", "name": "f", "parameters": schema}]}),
        json!({"tools": [{"name": "f", "input_schema": schema}]}),
        json!({"tools": [{"type": "function", "name": "f", "parameters": {}, "output_schema": schema}]}),
        json!({"guided_json": schema, "structured_outputs": {"json": schema}}),
        json!({"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": []}}]}),
        json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"file_id": "x"}}]}]}),
        json!({"messages": [{"role": "user", "content": "file_id"}], "metadata": {"file_id": "x"}}),
        json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}),
        json!({"text": {"format": {"type": "json_schema", "schema": schema}}}),
        json!({"tools": [{"name": "f", "input_schema": schema, "input_examples": [{"file_id": "x"}]}]}),
        json!({"tools": [{"type": "code_interpreter", "container": "auto"}]}),
        json!({"input": [{"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "t",
            "annotations": [{"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1"}]}]}]}),
        json!({"input": [{"type": "file_search_call", "id": "fs_1", "results": [{"file_id": "file-1", "text": "t"}]}]}),
        json!({"input": [{"type": "image_generation_call", "id": "ig_1", "result": "aW1n"}]}),
        json!({"input": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0"}]}),
        json!({"messages": [{"role": "assistant", "content": [{"type": "text", "text": "t", "citations": [{"file_id": "file_1"}]}]}]}),
        json!({"container": {"skills": [{"type": "anthropic", "skill_id": "pptx", "version": "latest"}]}}),
        json!({"mcp_servers": null}),
        json!({"audio": {"voice": "alloy", "format": "wav"}, "messages": [{"content": [{"type": "input_audio"}]}]}),
    ] {
        assert_eq!(facts(&body.to_string()), BodyFacts::default(), "{body}");
    }
}

#[test]
fn servers_and_options_are_found_in_every_spelling() {
    assert!(facts(r#"{"tools":[{"type":"\u006dcp","server_label":"a"}]}"#).names_servers);
    assert!(facts(r#"{"tools":[{"type":"mcp_toolset"}]}"#).names_servers);
    assert!(facts(r#"{"mcp_servers":[]}"#).names_servers);
    let nested = r#"{"input":[{"type":"additional_tools","tools":[{"type":"mcp","server_url":"https://other.example"}]}]}"#;
    assert!(facts(nested).names_servers);
    for reference in
        [r#"{"id":"msg_1"}"#, r#"{"id":"msg_1","type":null}"#, r#"{"type":"item_reference","id":"msg_1"}"#]
    {
        assert!(facts(&format!(r#"{{"input":[{reference}]}}"#)).has_item_references, "{reference}");
    }
    assert!(!facts(r#"{"input":[{"id":"msg_1","role":"user","content":"hi"}]}"#).has_item_references);
    assert!(facts(r#"{"input":[{"type":"item\u005freference","id":"msg_1"}]}"#).has_item_references);
    for (content, is_stored) in
        [("", true), (r#","encrypted_content":null"#, true), (r#","encrypted_content":"YQ""#, false)]
    {
        let body = format!(r#"{{"input":[{{"type":"reasoning","id":"rs_1","summary":[]{content}}}]}}"#);
        assert_eq!(facts(&body).has_stored_reasoning, is_stored, "{body}");
    }
    assert!(facts(r#"{"metadata":{"\u0074oolwire":"{}"}}"#).has_options);
    assert!(!facts(r#"{"messages":[{"type":"mcp","content":"\"mcp toolwire"}]}"#).names_servers);
    assert!(BodyFacts::of(b"{\"a\":01}").is_err() && BodyFacts::of(b"{} x").is_err());
}

/// Parsers use the first or the last of two equal keys, and some ignore case. A second key must not hide a
/// reference.
#[test]
fn a_second_key_or_spelling_does_not_hide_a_reference() {
    let item = |fields: &str| facts(&format!(r#"{{"input":[{{{fields}}}]}}"#));
    for (fields, key) in [
        (r#""type":"image_generation_call","id":"ig_1","Result":"aW1n""#, "image_generation_call"),
        (
            r#""type":"image_generation_call","id":"ig_1","result":"aW1n","result":null"#,
            "image_generation_call",
        ),
        (
            r#""type":"image_generation_call","id":"ig_1","result":null,"result":"aW1n""#,
            "image_generation_call",
        ),
        (r#""type":"image_generation_call","id":"ig_1","encrypted_content":"YQ""#, "image_generation_call"),
        (r#""type":"image_generation_call","id":"ig_1","type":"message""#, "image_generation_call"),
        (r#""type":"message","Type":"image_generation_call","ID":"ig_1""#, "image_generation_call"),
        (r#""type":"reasoning","id":"rs_1","encrypted_content":"YQ","encrypted_content":null"#, "reasoning"),
        (r#""type":"reasoning","id":"rs_1","encrypted_content":null,"encrypted_content":"YQ""#, "reasoning"),
        (r#""type":"reasoning","id":"rs_1","encrypted_content":"YQ","Encrypted_Content":"""#, "reasoning"),
        (r#""type":"reasoning","id":"rs_1","Encrypted_Content":"YQ""#, "reasoning"),
        (r#""type":"reasoning","id":"rs_1","type":"message""#, "reasoning"),
        (r#""type":"message","id":"rs_1","role":"user","content":"hi","Type":"reasoning""#, "reasoning"),
        (
            r#""type":"message","id":"msg_1","role":"user","content":"hi","Type":"item_reference""#,
            "item_reference",
        ),
        (r#""type":"item_reference","id":"msg_1","type":"message""#, "item_reference"),
        (r#""type":"message","id":"msg_1","type":null"#, "item_reference"),
        (r#""id":"msg_1","Role":"user","content":"hi""#, "item_reference"),
        (r#""id":"msg_1","role":"user","role":null,"content":"hi""#, "item_reference"),
        (r#""id":"msg_1","role":null"#, "item_reference"),
        (r#""id":"msg_1","role":"user""#, "item_reference"),
        (r#""id":"msg_1","Type":"message""#, "item_reference"),
    ] {
        assert_eq!(item(fields).provider_state, Some(key), "{fields}");
    }
    let reasoning = item(r#""type":"reasoning","id":"rs_1","summary":[],"result":"x""#);
    assert!(reasoning.has_stored_reasoning, "only encrypted content replaces the stored reasoning");
    for skill in [
        r#"{"type":"anthropic","type":"custom","skill_id":"skill_1"}"#,
        r#"{"type":"custom","type":"anthropic","skill_id":"skill_1"}"#,
        r#"{"Type":"anthropic","skill_id":"skill_1"}"#,
    ] {
        let body = format!(r#"{{"container":{{"skills":[{skill}]}}}}"#);
        assert_eq!(facts(&body).provider_state, Some("skill_id"), "{body}");
    }
    let audio = facts(r#"{"messages":[{"role":"assistant","audio":{"id":null,"Id":"audio_1"}}]}"#);
    assert_eq!(audio.provider_state, Some("audio"));
    let file =
        facts(r#"{"input":[{"role":"user","content":[{"type":"input_file","file_id":{"id":"file-1"}}]}]}"#);
    assert_eq!(file.provider_state, Some("file_id"));
    for (body, names_servers) in [
        (r#"{"tools":[{"type":"mcp","type":"function","name":"f"}]}"#, true),
        (r#"{"tools":[{"type":"function","Type":"mcp"}]}"#, true),
        (r#"{"tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]}"#, true),
        (r#"{"tools":[{"type":"function","name":"mcp"}]}"#, false),
    ] {
        assert_eq!(facts(body).names_servers, names_servers, "{body}");
    }
}

#[test]
fn null_means_absent() {
    for body in [
        json!({"input": [{"id": null, "role": "user", "content": "hi"}]}),
        json!({"input": [{"type": "reasoning", "id": null, "summary": []}]}),
        json!({"input": [{"type": "message", "id": "msg_1", "role": "assistant", "content": ""}]}),
        json!({"messages": [{"role": "user", "type": null, "content": "hi"}]}),
        json!({"messages": [{"role": "assistant", "audio": {"id": null}}]}),
    ] {
        assert_eq!(facts(&body.to_string()), BodyFacts::default(), "{body}");
    }
}
