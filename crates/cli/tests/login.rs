//! `login` and `logout` with a server that requires a token.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

/// Starts an MCP server that is its own authorization server, and returns its URL.
fn start_server(requires_login: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server_url = url.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let url = server_url.clone();
            thread::spawn(move || respond(stream.unwrap(), &url, requires_login));
        }
    });
    url
}

/// Responds to one request. Unknown paths, such as other places of metadata, do not exist.
fn respond(mut stream: TcpStream, url: &str, requires_login: bool) {
    let (head, body) = read_request(&mut stream);
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let has_token = head.to_lowercase().contains("authorization: bearer granted");
    let mut status = "200 OK".to_owned();
    let mut body = json!(null);
    match path {
        "/mcp" if requires_login && !has_token => {
            status = format!(
                "401 Unauthorized\r\nWWW-Authenticate: Bearer resource_metadata=\"{url}/.well-known/oauth-protected-resource\""
            );
        }
        "/mcp" if message["method"] == "initialize" => {
            body = json!({"jsonrpc": "2.0", "id": message["id"], "result": {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }});
        }
        "/mcp" if message["method"] == "tools/list" => {
            let tools = json!({"tools": [{"name": "read_note", "inputSchema": {"type": "object"}}]});
            body = json!({"jsonrpc": "2.0", "id": message["id"], "result": tools});
        }
        "/mcp" if message["id"].is_null() => status = "202 Accepted".to_owned(),
        "/mcp" => {
            let error = json!({"code": -32601, "message": "unknown"});
            body = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
        }
        "/.well-known/oauth-protected-resource" if requires_login => {
            body = json!({"resource": format!("{url}/mcp"), "authorization_servers": [url]});
        }
        "/.well-known/oauth-authorization-server" if requires_login => {
            body = json!({
                "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": format!("{url}/token"), "registration_endpoint": format!("{url}/register"),
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            });
        }
        "/register" if requires_login => {
            status = "201 Created".to_owned();
            body = json!({"client_id": "client", "redirect_uris": message["redirect_uris"]});
        }
        "/authorize" => {
            let parameter = |name: &str| {
                let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
                value.unwrap().to_owned()
            };
            let redirect = parameter("redirect_uri").replace("%3A", ":").replace("%2F", "/");
            status = format!("302 Found\r\nLocation: {redirect}?code=c&state={}", parameter("state"));
        }
        "/token" => {
            body = json!({"access_token": "granted", "token_type": "Bearer", "expires_in": 3600});
        }
        _ => status = "404 Not Found".to_owned(),
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(response.as_bytes()).unwrap();
}

fn read_request(stream: &mut TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// Requests a page like a browser, without following redirects, and returns the complete response.
fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn folder(name: &str, servers: Value) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("login").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
    folder
}

fn toolwire(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command.current_dir(folder).env("XDG_DATA_HOME", folder.join("data")).env("NO_COLOR", "1");
    command.env_remove("TOOLWIRE_CONFIG").stdin(Stdio::null()).args(arguments);
    command
}

#[track_caller]
fn check(output: Output, code: i32, stdout: &str, stderr: &str) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (actual, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), actual.as_str()), (Some(code), stdout), "{errors}");
    assert!(errors.contains(stderr), "{errors}");
}

#[test]
fn a_login_is_stored_until_the_logout() {
    let url = format!("{}/mcp", start_server(true));
    let folder = folder("stored", json!({"notes": {"url": url}}));
    let run = |arguments: &[&str]| toolwire(&folder, arguments).output().unwrap();

    let hint = "hint: log in with `toolwire login notes`";
    check(run(&["call", "read_note", "--server", "notes"]), 1, "", "no browser to log in with");
    let tools = run(&["tools"]);
    assert!(String::from_utf8_lossy(&tools.stderr).contains(hint), "{tools:?}");

    let mut login = toolwire(&folder, &["login", "notes"]);
    let mut login = login.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(login.stderr.take().unwrap()).lines();
    let page = lines.map(Result::unwrap).find_map(|line| Some(line.strip_prefix("  http")?.to_owned()));
    let redirect = get(&format!("http{}", page.unwrap()));
    let target = redirect.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
    assert!(get(target).contains("Logged in."));
    check(login.wait_with_output().unwrap(), 0, "logged in to `notes`\n", "");

    check(run(&["login", "notes"]), 0, "already logged in to `notes`\n", "");
    assert_eq!(run(&["tools"]).status.code(), Some(0));
    check(run(&["logout", "notes"]), 0, "logged out of `notes`\n", "");
    check(run(&["logout", "notes"]), 0, "not logged in to `notes`\n", "");
    assert_eq!(run(&["tools"]).status.code(), Some(1));
}

#[test]
fn servers_without_a_login_are_reported() {
    let url = format!("{}/mcp", start_server(false));
    let folder = folder(
        "none",
        json!({
            "open": {"url": url},
            "fixed": {"url": url, "headers": {"Authorization": "Bearer x"}},
            "local": {"command": "notes-mcp"},
        }),
    );
    let run = |arguments: &[&str]| toolwire(&folder, arguments).output().unwrap();
    check(run(&["login", "open"]), 0, "`open` requires no login\n", "");
    check(run(&["login", "fixed"]), 2, "", "`fixed` does not use a login: it has an `Authorization` header");
    check(run(&["logout", "local"]), 2, "", "`local` does not use a login: it is a local process");
    check(run(&["login", "tracker"]), 2, "", "hint: configured servers: `open`, `fixed`, `local`");
}
