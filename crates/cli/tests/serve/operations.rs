//! Signals, TLS, and what systemd expects of a service.

use std::io::{BufRead as _, Read as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{Api, FakeProvider};

use crate::{Served, command, folder, fs, serve, serve_with, text_script, with_provider};

const KEY: &str = "tw_0123456789abcdef0123456789abcdef";
const OTHER_KEY: &str = "tw_other456789abcdef0123456789abcdef";
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn certificates() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/serve/certificates")
}

fn signal(served: &Served, name: &str) {
    let id = served.child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
}

/// Returns the next line that contains a text.
fn wait_for_line(served: &mut Served, text: &str) -> String {
    let stderr = served.stderr.as_mut().unwrap();
    loop {
        let mut line = String::new();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended before `{text}`");
        if line.contains(text) {
            return line;
        }
    }
}

fn configuration(key: &str, alias: &str, limits: Value) -> Value {
    json!({"mcpServers": {}, "toolwire": {"model": "demo", "gateway": {
        "keys": {"client": {"key": key, "admin": true}}, "aliases": {alias: "demo"}, "limits": limits,
    }}})
}

async fn ask(served: &Served, model: &str, key: &str) -> u16 {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "What is 1 + 1?"}]});
    let request = http_client().post(format!("{}/v1/chat/completions", served.url)).json(&body);
    request.header("x-api-key", key).send().await.unwrap().status().as_u16()
}

async fn text(served: &Served, path: &str) -> String {
    http_client().get(format!("{}{path}", served.url)).send().await.unwrap().text().await.unwrap()
}

/// Keys, models, servers and limits change without a restart. A configuration with an error is not used.
#[tokio::test]
async fn sighup_reads_the_configuration_again() {
    let folder = folder("reload", Some(&configuration(KEY, "first", json!({}))));
    let write = |config: &str| fs::write(folder.join("mcp.json"), config).unwrap();
    let mut served = serve(&folder, &[]);
    assert_eq!(ask(&served, "first", KEY).await, 200);

    let mut changed = configuration(OTHER_KEY, "second", json!({"bodyBytes": 50}));
    changed["toolwire"]["store"] = "elsewhere.db".into();
    let toolwire = env!("CARGO_BIN_EXE_toolwire");
    changed["mcpServers"]["demo"] = json!({"command": toolwire, "args": ["demo-server"]});
    write(&changed.to_string());
    signal(&served, "HUP");
    assert!(wait_for_line(&mut served, "restart the gateway").contains("`toolwire.store`"));
    wait_for_line(&mut served, "reloaded the configuration");
    assert_eq!(ask(&served, "first", KEY).await, 401, "the old key is not valid any more");
    assert_eq!(ask(&served, "second", OTHER_KEY).await, 413, "the new limit");
    changed["toolwire"]["gateway"]["limits"] = json!({});
    write(&changed.to_string());
    signal(&served, "HUP");
    wait_for_line(&mut served, "reloaded the configuration");
    assert_eq!(ask(&served, "second", OTHER_KEY).await, 200);
    let is_ready =
        async || text(&served, "/metrics").await.contains("{toolwire_server=\"demo\",state=\"ready\"} 1");
    let waiting = async {
        while !is_ready().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("the new server is ready");

    write("{");
    signal(&served, "HUP");
    wait_for_line(&mut served, "the previous one stays in use");
    assert_eq!(ask(&served, "second", OTHER_KEY).await, 200);
    let ready: Value = serde_json::from_str(&text(&served, "/readyz").await).unwrap();
    assert_eq!((&ready["status"], &ready["reasons"][0]["part"]), (&json!("ready"), &json!("configuration")));
    assert!(text(&served, "/metrics").await.contains("toolwire_config_last_reload_successful 0"));
    write(&changed.to_string());
    signal(&served, "HUP");
    wait_for_line(&mut served, "reloaded the configuration");
    let metrics = text(&served, "/metrics").await;
    assert!(metrics.contains("toolwire_config_reloads_total{outcome=\"ok\"} 3"), "{metrics}");
    assert!(metrics.contains("toolwire_config_reloads_total{outcome=\"failed\"} 1"), "{metrics}");
    assert!(!text(&served, "/readyz").await.contains("configuration"));
}

/// A client that accepts only this certificate.
fn client_for(certificate: &str) -> reqwest::Client {
    toolwire_testkit::install_tls_provider();
    let pem = fs::read(certificates().join(certificate)).unwrap();
    let certificate = reqwest::Certificate::from_pem(&pem).unwrap();
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).tls_certs_only([certificate]);
    client.build().unwrap()
}

fn install(folder: &Path, name: &str) {
    for kind in ["crt", "key"] {
        let from = certificates().join(format!("{name}.{kind}"));
        fs::copy(from, folder.join(format!("tls.{kind}"))).unwrap();
    }
}

/// The certificate is replaced without a restart, and a stream over the old one goes on.
#[tokio::test]
async fn the_certificate_can_be_replaced() {
    let tls = json!({"certificate": "tls.crt", "key": "tls.key"});
    let mut config = configuration(KEY, "first", json!({}));
    config["toolwire"]["gateway"]["tls"] = tls;
    let folder = folder("tls", Some(&config));
    install(&folder, "one");
    let mut served = serve(&folder, &[]);
    let url = served.url.clone();
    assert!(url.starts_with("https://"), "{url}");
    let works =
        async |certificate: &str| client_for(certificate).get(format!("{url}/healthz")).send().await.is_ok();
    assert!(works("one.crt").await && !works("two.crt").await);
    let body =
        json!({"model": "demo", "stream": true, "messages": [{"role": "user", "content": "What is 1 + 1?"}]});
    let request = client_for("one.crt").post(format!("{url}/v1/chat/completions")).json(&body);
    let mut stream = request.header("x-api-key", KEY).send().await.unwrap().bytes_stream();
    let first = stream.next().await.unwrap().unwrap();

    fs::write(folder.join("tls.crt"), "not a certificate").unwrap();
    signal(&served, "HUP");
    let line = wait_for_line(&mut served, "the previous one stays in use");
    assert!(line.contains("`toolwire.gateway.tls`: the certificate file contains no certificate"), "{line}");
    assert!(works("one.crt").await);
    fs::copy(certificates().join("two.crt"), folder.join("tls.crt")).unwrap();
    signal(&served, "HUP");
    let line = wait_for_line(&mut served, "the previous one stays in use");
    assert!(line.contains("cannot be used"), "the key belongs to another certificate: {line}");
    install(&folder, "two");
    signal(&served, "HUP");
    wait_for_line(&mut served, "reloaded the configuration");
    assert!(works("two.crt").await && !works("one.crt").await);
    let mut text = String::from_utf8_lossy(&first).into_owned();
    while let Some(part) = stream.next().await {
        text.push_str(&String::from_utf8_lossy(&part.unwrap()));
    }
    assert!(text.contains("[DONE]"), "{text}");
    // A client without TLS gets nothing.
    let plain = served.url.replace("https://", "http://");
    assert!(http_client().get(format!("{plain}/healthz")).send().await.is_err());
}

/// systemd opens the socket before the gateway starts, and receives the state of the gateway.
#[tokio::test]
async fn systemd_passes_a_socket_and_learns_the_state() {
    let folder = folder("systemd", Some(&configuration(KEY, "first", json!({}))));
    let states = UnixDatagram::bind(folder.join("notify")).unwrap();
    states.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let next_state = || {
        let mut state = [0; 256];
        let length = states.recv(&mut state).unwrap();
        String::from_utf8_lossy(&state[..length]).into_owned()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The shell moves the socket to descriptor 3, as systemd does.
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    let gateway = command(&folder, &[]);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "sh"]).arg(gateway.get_program()).args(gateway.get_args());
    shell.current_dir(&folder).envs(gateway.get_envs().filter_map(|(name, value)| Some((name, value?))));
    for (name, _) in gateway.get_envs().filter(|(_, value)| value.is_none()) {
        shell.env_remove(name);
    }
    shell.env("NOTIFY_SOCKET", folder.join("notify")).stdin(Stdio::from(OwnedFd::from(listener)));
    let mut served = serve_with(&mut shell);
    assert_eq!(served.url, format!("http://{address}"));
    assert_eq!(next_state(), "READY=1");
    assert_eq!(ask(&served, "first", KEY).await, 200);
    signal(&served, "HUP");
    assert!(next_state().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(next_state(), "READY=1");
    wait_for_line(&mut served, "reloaded the configuration");
    signal(&served, "TERM");
    assert_eq!(next_state(), "STOPPING=1");
    assert!(served.child.wait().unwrap().success());
    let mut rest = String::new();
    served.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("error"), "{rest}");
}

/// The units in `packaging/systemd` are valid for systemd, where it is installed, and start this program.
#[test]
fn the_units_of_systemd_are_valid() {
    let packaging = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let folder = folder("units", None);
    let service = fs::read_to_string(packaging.join("toolwire.service")).unwrap();
    let program = "/usr/bin/toolwire";
    assert!(service.contains(&format!("\nExecStart={program} serve --config /etc/toolwire/mcp.json\n")));
    let service = service.replace(program, env!("CARGO_BIN_EXE_toolwire"));
    fs::write(folder.join("toolwire.service"), service).unwrap();
    fs::copy(packaging.join("toolwire.socket"), folder.join("toolwire.socket")).unwrap();
    let files = ["toolwire.service", "toolwire.socket"].map(|name| folder.join(name));
    let Ok(output) = Command::new("systemd-analyze").arg("verify").args(&files).output() else {
        println!("systemd is not installed; the units were not checked");
        return;
    };
    let found = String::from_utf8_lossy(&output.stderr);
    let about_ours = found.lines().filter(|line| line.contains("toolwire"));
    assert_eq!(about_ours.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// Each query of the Grafana dashboard uses metrics that the gateway has, and labels that they can have.
#[tokio::test]
async fn the_queries_of_the_dashboard_use_metrics_that_exist() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/toolwire.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let mut queries: Vec<String> =
        targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    queries.extend(variables.filter_map(|variable| variable["definition"].as_str().map(str::to_owned)));
    assert!(queries.len() > 20, "{queries:?}");

    // A call of a tool, so that the metrics have their labels.
    let folder = folder("dashboard", None);
    let served = serve(&folder, &[]);
    let body = json!({"model": "demo", "messages": [{"role": "user", "content": "What is 25 + 17?"}]});
    let request = http_client().post(format!("{}/v1/chat/completions", served.url)).json(&body);
    assert_eq!(request.send().await.unwrap().status(), 200);
    let metrics = text(&served, "/metrics").await;
    let kinds: Vec<(&str, &str)> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let exists = |name: &str| {
        kinds.iter().any(|(metric, kind)| match *kind {
            "histogram" => {
                ["_bucket", "_sum", "_count"].iter().any(|part| name.strip_suffix(part) == Some(metric))
            }
            _ => name == *metric,
        })
    };
    let prefixes = ["http_", "gen_ai_", "mcp_", "toolwire_", "process_"];
    let is_label = |word: &str| {
        let known = ["gen_ai_request_model", "gen_ai_tool_name", "gen_ai_token_type", "toolwire_server"];
        known.contains(&word) || ["http_response_status_code", "http_route"].contains(&word)
    };
    let words = regex::Regex::new("[a-z_]+").unwrap();
    let mut used = 0;
    for query in &queries {
        for word in words.find_iter(query).map(|found| found.as_str()) {
            if prefixes.iter().any(|prefix| word.starts_with(prefix)) && !is_label(word) {
                assert!(exists(word), "`{word}` in `{query}` is not a metric:\n{metrics}");
                used += 1;
            }
        }
    }
    assert!(used > 20);
    for label in
        ["gen_ai_tool_name=\"calculate\"", "toolwire_server=\"demo\"", "gen_ai_request_model=\"demo\""]
    {
        assert!(metrics.contains(label), "{label}:\n{metrics}");
    }
    // What operators see first: each metric has a description.
    let described = metrics.lines().filter(|line| line.starts_with("# HELP ")).count();
    assert_eq!(described, kinds.len());
}

/// The tokens of forwarded requests are counted too, whether they are streamed or not.
#[tokio::test]
async fn tokens_of_forwarded_requests_are_counted() {
    for (api, name, path, extra) in [
        (
            Api::OpenAiChat,
            "openai",
            "/v1/chat/completions",
            json!({"stream_options": {"include_usage": true}}),
        ),
        (Api::Responses, "responses", "/v1/responses", json!({})),
        (Api::Anthropic, "anthropic", "/v1/messages", json!({"max_tokens": 10})),
    ] {
        let provider = FakeProvider::start(api, text_script()).await;
        let served = serve(&folder(&format!("tokens-{name}"), Some(&with_provider(&provider, name))), &[]);
        let mut expected = [0.0, 0.0];
        for stream in [false, true] {
            let mut body =
                json!({"model": "up", "messages": [{"role": "user", "content": "hi"}], "stream": stream});
            if path == "/v1/responses" {
                body = json!({"model": "up", "input": "hi", "stream": stream});
            }
            if stream || api == Api::Anthropic {
                body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            }
            let response =
                http_client().post(format!("{}{path}", served.url)).json(&body).send().await.unwrap();
            assert_eq!(response.status(), 200, "{name}");
            let body = response.text().await.unwrap();
            if let Ok(complete) = serde_json::from_str::<Value>(&body) {
                let usage = &complete["usage"];
                let number =
                    |keys: [&str; 2]| keys.iter().find_map(|key| usage[*key].as_u64()).unwrap() as f64;
                // The provider states the same for both.
                expected = [
                    number(["prompt_tokens", "input_tokens"]),
                    number(["completion_tokens", "output_tokens"]),
                ];
            }
        }
        let metrics = text(&served, "/metrics").await;
        for (kind, expected) in ["input", "output"].into_iter().zip(expected) {
            let labels = format!("gen_ai_request_model=\"up\",gen_ai_token_type=\"{kind}\"");
            let line = |part: &str| {
                format!("gen_ai_client_token_usage_{part}{{gen_ai_operation_name=\"chat\",{labels}}}")
            };
            let (count, sum) =
                (format!("{} 2\n", line("count")), format!("{} {}\n", line("sum"), 2.0 * expected));
            assert!(metrics.contains(&count) && metrics.contains(&sum), "{name} {sum}: {metrics}");
        }
    }
}

/// Attempts at endpoints are counted, and the requests that another endpoint got.
#[tokio::test]
async fn attempts_and_failovers_are_counted() {
    const REQUESTS: usize = 5;
    let provider = FakeProvider::start(Api::OpenAiChat, text_script()).await;
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = with_provider(&provider, "openai");
    let upstreams = json!([
        {"baseUrl": format!("http://{unused}/v1"), "weight": 1_000_000},
        {"baseUrl": provider.base_url(), "weight": 1},
    ]);
    config["toolwire"]["models"]["up"]["upstreams"] = upstreams;
    let served = serve(&folder("attempts", Some(&config)), &[]);
    for number in 0..REQUESTS {
        assert_eq!(ask(&served, "up", "").await, 200, "{number}");
    }
    let metrics = text(&served, "/metrics").await;
    let value = |series: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(series));
        line.map_or(0, |value| value.trim().parse::<usize>().unwrap())
    };
    let attempts = "toolwire_upstream_attempts_total{gen_ai_request_model=\"up\"";
    assert_eq!(value(&format!("{attempts}}} ")), REQUESTS, "{metrics}");
    let failed = value(&format!("{attempts},error_type=\"unreachable\"}} "));
    let failovers = value("toolwire_upstream_failovers_total{gen_ai_request_model=\"up\"} ");
    assert!(failed > 0 && failed == failovers, "{metrics}");
}

pub(crate) fn doctor(folder: &PathBuf) -> (Option<i32>, String) {
    let serve = command(folder, &[]);
    let mut doctor = Command::new(serve.get_program());
    doctor.arg("doctor").current_dir(folder).env_clear();
    doctor.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = doctor.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// `toolwire doctor` knows the gateway: its address and keys, its files, its store, and whether it is ready.
#[tokio::test]
async fn doctor_checks_the_gateway() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut config = configuration("short", "first", json!({}));
    config["toolwire"]["store"] = "conversations.db".into();
    config["toolwire"]["gateway"]["listen"] = format!("127.0.0.1:{port}").into();
    let folder = folder("doctor", Some(&config));
    let check = |config: &Value| {
        fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
        doctor(&folder)
    };
    let (code, text) = check(&config);
    assert_eq!(code, Some(0), "{text}");
    for line in ["✓ store  conversations can be read", "1 key", "✓ running  no gateway is running"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let served = serve_with(&mut command(&folder, &[]));
    assert!(check(&config).1.contains("✓ running  the gateway is ready"));
    drop(served);

    config["toolwire"]["gateway"]["listen"] = "0.0.0.0:0".into();
    config["toolwire"]["store"] = "/dev/null/conversations.db".into();
    let (code, text) = check(&config);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("✗ store") && text.contains("✗ gateway  the key `client` is shorter"), "{text}");
    config["toolwire"]["gateway"]["keys"] = json!({});
    assert!(check(&config).1.contains("no key is configured"));

    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    config["toolwire"]["gateway"] = json!({
        "listen": busy.local_addr().unwrap().to_string(),
        "tls": {"certificate": "tls.crt", "key": "tls.key"},
    });
    assert!(check(&config).1.contains("cannot read `tls.crt`"));
    for (name, expected) in
        [("one", "✓ TLS  the certificate is valid for"), ("expired", "✗ TLS  the certificate has expired")]
    {
        install(&folder, name);
        let (_, text) = check(&config);
        assert!(text.contains(expected), "{text}");
    }
    fs::copy(certificates().join("two.key"), folder.join("tls.key")).unwrap();
    assert!(check(&config).1.contains("the certificate and the key cannot be used"));
}
