//! Randomly mutated responses, events and results. Each has an outcome, and none causes a panic.

use serde_json::{Value, json};
use toolwire_contract::ToolResult;
use toolwire_dialect::Dialect;
use toolwire_dialect::request::write_calls;
use toolwire_dialect::response::{CallStream, read_calls};
use toolwire_dialect::result::{CallOutcome, ResultOptions, write_results};

use crate::transcripts;

/// A small random number generator: the same seed reproduces a failure.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }

    fn unusual_value(&mut self) -> Value {
        let values = json!([
            null, true, -1, 0, 1, 1.5, 18446744073709551615u64, "", "\u{0}", "tool_use", "length", [], [[]], {}, {"": {}},
            {"type": "tool_use"}, "{\"a\":1}", {"function": 5}, "$.a[0]", "data:;base64,AA=="
        ]);
        values[self.below(20)].clone()
    }

    /// Makes one random change.
    fn mutate(&mut self, value: &mut Value) {
        let choice = self.below(6);
        match value {
            Value::Object(fields) if choice > 0 && !fields.is_empty() => {
                let key = fields.keys().nth(self.below(fields.len())).unwrap().clone();
                match choice {
                    1 => {
                        fields.shift_remove(&key);
                    }
                    2 => {
                        let value = fields.shift_remove(&key).unwrap();
                        fields.insert(format!("{key}x"), value);
                    }
                    _ => self.mutate(&mut fields[&key]),
                }
            }
            Value::Array(items) if choice > 0 && !items.is_empty() => {
                let index = self.below(items.len());
                match choice {
                    1 => {
                        items.remove(index);
                    }
                    2 => items.push(items[index].clone()),
                    _ => self.mutate(&mut items[index]),
                }
            }
            other => *other = self.unusual_value(),
        }
    }
}

#[test]
fn mutated_responses_and_streams_have_an_outcome() {
    let transcripts = transcripts::all();
    let mut random = Random(7);
    let mut call_count = 0;
    for _ in 0..3_000 {
        let (dialect, transcript) = &transcripts[random.below(transcripts.len())];
        let mut body = transcript["body"].clone();
        let mut events: Vec<Value> = ["before", "end"]
            .iter()
            .flat_map(|part| transcript[*part].as_array().unwrap().clone())
            .chain([transcript["a"].clone(), transcript["b"].clone()])
            .collect();
        for _ in 0..=random.below(3) {
            random.mutate(&mut body);
            let index = random.below(events.len());
            random.mutate(&mut events[index]);
            let (one, other) = (random.below(events.len()), random.below(events.len()));
            events.swap(one, other);
        }
        // Also reads the response as that of another API.
        for dialect in [*dialect, Dialect::all().nth(random.below(Dialect::all().len())).unwrap()] {
            let mut stream = CallStream::new(dialect);
            for event in &events {
                let _ = stream.push(event);
            }
            let streamed = stream.finish();
            for calls in [read_calls(dialect, &body), streamed].into_iter().flatten() {
                call_count += calls.len();
                assert!(calls.iter().all(|call| !call.name.is_empty()));
                for to in Dialect::all() {
                    write_calls(to, &calls);
                }
            }
        }
    }
    assert!(call_count > 500, "only {call_count} calls were left after the mutations");
}

#[test]
fn mutated_results_have_an_outcome() {
    let calls = read_calls(Dialect::Gemini, &json!({"parts": [{"functionCall": {"name": "f"}}]})).unwrap();
    let results = json!([
        {"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}], "isError": true},
        {"content": [{"type": "resource", "resource": {"uri": "a:b", "mimeType": "application/pdf", "blob": "JVBERi0xLjQK"}}], "structuredContent": {"$ref": [1.0]}},
        {"content": [{"type": "resource_link", "uri": "a:b", "name": "n", "size": 5}, {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}], "structuredContent": null},
    ]);
    let mut random = Random(11);
    for _ in 0..2_000 {
        let mut result = results[random.below(3)].clone();
        for _ in 0..=random.below(3) {
            random.mutate(&mut result);
        }
        let Ok(result) = ToolResult::try_from(result) else { continue };
        for dialect in Dialect::all() {
            let mut options = ResultOptions::default();
            options.text_budget = Some(random.below(40));
            let outcomes = [CallOutcome { call: &calls[0], result: Some(&result) }];
            let messages = write_results(dialect, &outcomes, &options);
            assert!(messages.is_ok_and(|messages| !messages.is_empty()) || result.needs_input());
        }
    }
}
