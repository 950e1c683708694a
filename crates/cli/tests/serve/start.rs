//! The start of `toolwire serve`: what it prints, and the mistakes that it reports.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use toolwire_testkit::http_client;

use crate::{command, folder, fs, serve, serve_with};

#[tokio::test]
async fn the_first_request_needs_no_configuration() {
    let served = serve(&folder("demo", None), &[]);
    let text = served.lines.join("\n");
    for part in
        ["curl http://127.0.0.1:", "from openai import OpenAI", "ANTHROPIC_BASE_URL=http://127.0.0.1:"]
    {
        assert!(text.contains(part), "{text}");
    }
    let body = json!({"model": "demo", "messages": [{"role": "user", "content": "What is 25 + 17?"}]});
    let response: Value = http_client()
        .post(format!("{}/v1/chat/completions", served.url))
        .json(&body)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let content = response["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(content.contains("42"), "{response}");
}

#[test]
fn other_machines_need_a_key() {
    let folder = folder("keys", None);
    let refused_at = |address: &str, key: Option<&str>| {
        let mut command = command(&folder, &["--listen", address]);
        if let Some(key) = key {
            command.env("TOOLWIRE_KEY", key);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let refused = |key: Option<&str>| refused_at("0.0.0.0:0", key);
    for address in ["0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"] {
        let (code, text) = refused_at(address, None);
        // Some machines have no IPv6.
        if !text.contains("cannot listen on") {
            assert_eq!(code, Some(2), "{address}: {text}");
            assert!(text.contains("no key is configured"), "{address}: {text}");
        }
    }
    let (code, text) = refused(Some(&" ".repeat(40)));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("the key `TOOLWIRE_KEY` is empty"), "{text}");
    let (code, text) = refused(None);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("no key is configured")
            && text.contains("hint: create a key with `toolwire keys create"),
        "{text}"
    );
    let (code, text) = refused(Some("short"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("shorter than 32 characters") && !text.contains("`short`"), "{text}");
    let output = command(&folder, &["--listen", "nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// The printed example commands work unchanged, with a key from the environment and an address that clients
/// can use.
#[tokio::test]
async fn the_printed_lines_work_when_copied() {
    const KEY: &str = "tw_0123456789abcdef0123456789abcdef";
    let folder = folder("lines", None);
    let served = serve_with(command(&folder, &["--listen", "0.0.0.0:0"]).env("TOOLWIRE_KEY", KEY));
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).unwrap();
    for name in ["curl", "python", "claude"] {
        let program = programs.join(name);
        let script = "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$ANTHROPIC_BASE_URL\" \"$ANTHROPIC_AUTH_TOKEN\"\n";
        fs::File::create(&program).unwrap().write_all(script.as_bytes()).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let text = served.lines.join("\n");
    let first = text.find("  curl ").unwrap();
    let copied =
        text[first..].lines().take_while(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n");
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", &copied])
        .env("PATH", format!("{}:/bin:/usr/bin", programs.display()))
        .env("TOOLWIRE_KEY", KEY)
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    assert!(!copied.contains("0.0.0.0") && copied.contains("http://127.0.0.1:"), "{copied}");
    assert!(shown.contains(&format!("authorization: Bearer {KEY}\n")), "{shown}");
    assert!(shown.contains("api_key=os.environ[\"TOOLWIRE_KEY\"]"), "{shown}");
    assert!(shown.lines().any(|line| line == KEY), "the token of claude: {shown}");
    let lines: Vec<&str> = shown.lines().collect();
    let body =
        lines.iter().find_map(|line| serde_json::from_str::<Value>(line).ok().filter(Value::is_object));
    let request = http_client().post(lines[0]).header("authorization", format!("Bearer {KEY}"));
    let response = request.json(&body.unwrap()).send().await.unwrap();
    assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
}

/// A mistake in the configuration is reported at the start, and the hint names the right guide.
#[test]
fn mistakes_are_reported_at_the_start() {
    for (gateway, expected) in [
        (json!({"aliases": {"fast": "nowhere/x"}}), "alias `fast`: model `nowhere/x`: "),
        (json!({"aliases": {"fast-*": "nowhere/x"}}), "alias `fast-*`: model `nowhere/x`: "),
        (json!({"aliases": {"*-fast": "demo"}}), "alias `*-fast`: the `*` is not at the end"),
        (json!({"origins": ["*"]}), "`toolwire.gateway.origins`: `*` is not the origin of a web page"),
        (
            json!({"origins": ["https://chat.example/"]}),
            "`https://chat.example/` is not the origin of a web page",
        ),
        (json!({"hosts": ["https://gateway.example"]}), "`https://gateway.example` is not a host name"),
        (json!({"limits": {"heartbeat": 0}}), "`toolwire.gateway.limits.heartbeat`: `0` is not a duration"),
        (
            json!({"limits": {"bodyBytes": 2_000, "allBodiesBytes": 1_000}}),
            "`toolwire.gateway.limits`: `allBodiesBytes` is 1000, and must not be less than `bodyBytes`, which is 2000",
        ),
        (
            json!({"limits": {"connections": usize::MAX}}),
            "`toolwire.gateway.limits`: `connections` is 18446744073709551615, and the maximum is ",
        ),
        (json!({"limits": {"requests": "many"}}), "hint: `docs/guide/gateway.md` describes the keys"),
    ] {
        let config = json!({"mcpServers": {}, "toolwire": {"model": "demo", "gateway": gateway}});
        let output =
            command(&folder("mistakes", Some(&config)), &["--listen", "127.0.0.1:0"]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{gateway}: {text}");
        assert!(text.contains(expected) && text.contains("hint: "), "{gateway}: {text}");
    }
}

/// The gateway is ready as soon as no server is starting, even if a server failed.
#[tokio::test]
async fn the_gateway_is_ready_after_the_start_of_its_servers() {
    let folder = folder("ready", None);
    let gate = folder.join("gate");
    let script = format!("while [ ! -e '{}' ]; do sleep 0.05; done; exit 3", gate.display());
    let config = json!({"mcpServers": {"slow": {"command": "/bin/sh", "args": ["-c", script]}}, "toolwire": {"model": "demo"}});
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    let mut child =
        command(&folder, &["--listen", "127.0.0.1:0"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let url = loop {
        let mut line = String::new();
        assert_ne!(std::io::BufRead::read_line(&mut stderr, &mut line).unwrap(), 0);
        if let Some(url) = line.trim_end().strip_prefix("listening on ") {
            break url.to_owned();
        }
    };
    let ready = async || {
        let response = http_client().get(format!("{url}/readyz")).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (status, body) = ready().await;
    assert_eq!((status, &body["status"], &body["unavailableServers"]), (503, &json!("starting"), &json!(1)));
    assert_eq!(
        (&body["reasons"][0]["name"], &body["reasons"][0]["isStarting"]),
        (&json!("slow"), &json!(true))
    );
    assert_eq!(http_client().get(format!("{url}/healthz")).send().await.unwrap().status(), 200);
    fs::write(&gate, "").unwrap();
    let settled = async {
        while ready().await.0 != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let settled = tokio::time::timeout(std::time::Duration::from_secs(120), settled).await;
    let last = ready().await;
    let _ = child.kill();
    let _ = child.wait();
    assert!(settled.is_ok());
    let (status, body) = last;
    assert_eq!((status, &body["status"], &body["unavailableServers"]), (200, &json!("ready"), &json!(1)));
    assert_eq!(body["reasons"][0]["isStarting"], false);
}
