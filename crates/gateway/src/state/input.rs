//! The input of a request, together with the items of the conversation that it continues.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::record::StoredItem;
use crate::request_body::RequestBody;
use crate::response::Failure;

/// The items of a request as JSON texts, without the brackets around them.
#[derive(Clone, Debug, Default)]
pub(super) struct NewInput(Bytes);

impl NewInput {
    /// Reads the field `input`: a text, or items.
    pub(super) fn of(body: &RequestBody) -> Result<NewInput, Failure> {
        let text = body.slice("input").unwrap_or_default();
        match text.first() {
            Some(b'"') => {
                Ok(NewInput([br#"{"role":"user","content":"#.as_slice(), &text, b"}"].concat().into()))
            }
            _ => NewInput::list(body, "input"),
        }
    }

    /// Reads a field with items.
    pub(super) fn list(body: &RequestBody, key: &str) -> Result<NewInput, Failure> {
        let text = body.slice(key).unwrap_or_default();
        let items = match text.first() {
            None | Some(b'n') => Bytes::new(),
            Some(b'[') if text.ends_with(b"]") => text.slice_ref(text[1..text.len() - 1].trim_ascii()),
            Some(_) => return Err(Failure::invalid(key, format!("`{key}` must be an array"))),
        };
        Ok(NewInput(items))
    }

    /// Returns each item.
    pub(super) fn items(&self) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
        serde_json::from_str(&format!("[{}]", self.text()))
    }

    /// Returns the size in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn text(&self) -> &str {
        // It was checked when the body was read.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Returns a body that contains the whole conversation instead of its id, or that of its last response.
pub(super) fn expanded(body: &RequestBody, earlier: &[StoredItem], new: &NewInput) -> Bytes {
    let is_kept = |name: &str| !["input", "previous_response_id", "conversation"].contains(&name);
    let fields = body.fields().filter(|(name, _)| is_kept(name));
    let mut text = String::from("{");
    for (name, value) in fields {
        // The name has no escapes, and both were checked when the body was read.
        text.push_str(&format!("\"{name}\":{value},"));
    }
    text.push_str("\"input\":[");
    let items = earlier.iter().map(|item| item.item.get());
    let items: Vec<&str> = items.chain(Some(new.text()).filter(|new| !new.is_empty())).collect();
    text.push_str(&items.join(","));
    text.push_str("]}");
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::state::record::ItemIds;

    fn body(text: &str) -> RequestBody {
        RequestBody::read(Bytes::from(text.to_owned())).expect("a body")
    }

    fn stored(items: Value) -> Vec<StoredItem> {
        let items: Vec<Box<RawValue>> = serde_json::from_value(items).expect("items");
        let mut ids = ItemIds::new(&[], "x".to_owned());
        items.into_iter().map(|item| ids.assign(item)).collect()
    }

    #[test]
    fn the_new_items_follow_those_of_the_conversation() {
        let earlier = stored(json!([{"role": "user", "content": "a"}, {"type": "message", "id": "msg_1"}]));
        let check = |sent: &str, input: Value| {
            let body = body(sent);
            let new = NewInput::of(&body).expect("an input");
            let text = expanded(&body, &earlier, &new);
            let value: Value = serde_json::from_slice(&text).expect("JSON");
            let mut expected =
                vec![json!({"role": "user", "content": "a"}), json!({"type": "message", "id": "msg_1"})];
            expected.extend(input.as_array().expect("items").iter().cloned());
            let number: Value = serde_json::from_str("1.50").expect("a number");
            assert_eq!(value, json!({"model": "m", "n": number, "input": expected}), "{sent}");
            assert!(str::from_utf8(&text).expect("text").contains("1.50"), "numbers keep their digits");
        };
        check(
            r#"{"model":"m","previous_response_id":"resp_1","input":"b\"é","n":1.50}"#,
            json!([{"role": "user", "content": "b\"é"}]),
        );
        check(r#"{"model":"m","n":1.50,"input":[ {"type":"x"} , 2 ]}"#, json!([{"type": "x"}, 2]));
        for nothing in [r#""input":null,"#, r#""input":[ ],"#, ""] {
            check(&format!(r#"{{{nothing}"model":"m","n":1.50}}"#), json!([]));
        }
    }

    #[test]
    fn an_input_of_another_type_is_refused() {
        for input in ["1", "{}", "true", "[}"] {
            let body = body(&format!(r#"{{"input":{input}}}"#));
            let error = NewInput::of(&body).expect_err("no input").error;
            assert_eq!(error.parameter.as_deref(), Some("input"));
        }
        // What only looks like items is refused when the whole body is read.
        let body = body(r#"{"input":[{]]}"#);
        let new = NewInput::of(&body).expect("a text in brackets");
        assert!(new.items().is_err());
        assert!(serde_json::from_slice::<Value>(&expanded(&body, &[], &new)).is_err());
    }

    #[test]
    fn each_item_has_its_own_id() {
        let items = stored(json!([
            {"role": "user", "content": "a"}, {"type": "message", "id": "msg_1"}, {"type": "message", "id": "msg_1"},
            {"type": "function_call_output", "id": 5}, {"type": "later\n"}, 7,
        ]));
        let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, ["msg_xi0", "msg_1", "msg_xi2", "fco_xi3", "item_xi4", "msg_xi5"]);
    }
}
