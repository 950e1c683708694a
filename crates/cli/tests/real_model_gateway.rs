//! The gateway in front of a real language model, with OpenAI's client for Python. `scripts/real-model` runs
//! these tests.
//!
//! They check the structure only, as those of `real_model` do: what a small model writes is printed but not
//! checked.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve() -> Served {
    let model_url =
        std::env::var("TOOLWIRE_REAL_MODEL_URL").expect("`scripts/real-model` sets the URL of the model");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("real-model-gateway");
    fs::create_dir_all(&folder).unwrap();
    let program = env!("CARGO_BIN_EXE_toolwire");
    let model = json!({"provider": "llamacpp", "model": "local", "baseUrl": model_url});
    let config = json!({
        "mcpServers": {"demo": {"command": program, "args": ["demo-server"]}},
        "toolwire": {"model": "local", "models": {"local": model}},
    });
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    let mut child = Command::new(program)
        .current_dir(&folder)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("XDG_DATA_HOME", folder.join("data"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = None;
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for line in lines.by_ref().map(Result::unwrap) {
        if let Some(listening) = line.strip_prefix("listening on ") {
            url = Some(listening.to_owned());
        }
        if line.starts_with("ready") {
            break;
        }
    }
    std::thread::spawn(move || lines.for_each(drop));
    Served { child, url: url.expect("the gateway listens") }
}

/// Runs a script with OpenAI's client; `ask` in it requires a call. Returns what it prints as JSON.
fn run(script: &str) -> Value {
    let served = serve();
    let servers = std::env::var_os("TOOLWIRE_TEST_SERVERS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/servers"),
        PathBuf::from,
    );
    let prelude = format!(
        "import json\nfrom openai import OpenAI\nclient = OpenAI(base_url='{}/v1', api_key='none', max_retries=0, timeout=600)\n\
         def ask(question, headers, **more):\n    return client.chat.completions.create(model='local', max_tokens=200, temperature=0, \
         tool_choice='required', extra_headers=headers,\n        messages=[{{'role': 'user', 'content': question}}], **more)\n",
        served.url
    );
    let output = Command::new(servers.join("clients/venv/bin/python"))
        .args(["-c", &(prelude + script)])
        .output()
        .expect("`scripts/servers` installs the clients");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs a real model; scripts/real-model runs it"]
fn a_required_call_of_a_server_runs_in_the_gateway() {
    let response = run("headers = {'x-toolwire-tools': 'calculate', 'x-toolwire-show-calls': 'true'}\n\
         print(ask('What is 25 + 17?', headers).model_dump_json())\n");
    println!("{response:#}");
    let calls = response["toolwire"]["calls"].as_array().expect("the calls are shown");
    assert_eq!(calls[0]["name"], "calculate", "{response}");
    assert!(response["choices"][0]["message"]["content"].is_string(), "{response}");
    assert_eq!(response["choices"][0]["message"]["tool_calls"], Value::Null, "{response}");
}

#[test]
#[ignore = "needs a real model; scripts/real-model runs it"]
fn a_required_call_of_the_client_returns_to_it() {
    let response = run(
        "schema = {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}\n\
         tool = {'type': 'function', 'function': {'name': 'get_city', 'description': 'A city', 'parameters': schema}}\n\
         whole = ask('Lima', {'x-toolwire-servers': 'none'}, tools=[tool])\n\
         with client.chat.completions.stream(model='local', max_tokens=200, tool_choice='required', tools=[tool],\n        \
         extra_headers={'x-toolwire-servers': 'none'}, messages=[{'role': 'user', 'content': 'Lima'}]) as stream:\n    \
         for _ in stream: pass\n    streamed = stream.get_final_completion()\n\
         calls = [r.choices[0].message.tool_calls[0] for r in (whole, streamed)]\n\
         print(json.dumps([[c.function.name, json.loads(c.function.arguments)] for c in calls]))\n",
    );
    println!("{response}");
    for call in response.as_array().unwrap() {
        assert!(call[0] == "get_city" && call[1]["city"].is_string(), "{response}");
    }
}
