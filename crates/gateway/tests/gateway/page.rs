//! The web page over HTTP: who may use it, its headers, and the views of tools and traffic.

use crate::support::{MODEL, TestGateway};
use serde_json::{Value, json};
use toolwire_agent::search::ToolIndex;
use toolwire_contract::Tool;
use toolwire_contract::toolbox::ToolServer;
use toolwire_gateway::{GatewaySettings, Keys};
use toolwire_testkit::http_client;

const KEY: &str = "tw_0123456789abcdef0123456789abcdef";
const OTHER_KEY: &str = "tw_fedcba9876543210fedcba9876543210";

/// A browser: it sends the headers of one, and keeps cookies.
struct Browser {
    gateway: TestGateway,
    cookies: Vec<(String, String)>,
}

struct Page {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

impl Browser {
    async fn start() -> (Browser, String) {
        Browser::with(GatewaySettings::default()).await
    }

    async fn with(settings: GatewaySettings) -> (Browser, String) {
        let (gateway, token) = TestGateway::with_page(settings).await;
        (Browser { gateway, cookies: Vec::new() }, token)
    }

    async fn send(&mut self, request: reqwest::RequestBuilder, accept: &str) -> Page {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = request.header("accept", accept).header("sec-fetch-site", "same-origin");
        let response = request.header("cookie", cookies.join("; ")).send().await.unwrap();
        for cookie in response.headers().get_all("set-cookie") {
            let (name, rest) = cookie.to_str().unwrap().split_once('=').unwrap();
            self.cookies.retain(|(known, _)| known != name);
            self.cookies.push((name.to_owned(), rest.split(';').next().unwrap().to_owned()));
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Page { status, headers, text: response.text().await.unwrap() }
    }

    async fn get(&mut self, path: &str) -> Page {
        let request = client().get(self.gateway.url(path));
        self.send(request, "text/html").await
    }

    async fn post(&mut self, path: &str, form: &[(&str, &str)], accept: &str) -> Page {
        let request = with_form(client().post(self.gateway.url(path)), form);
        self.send(request, accept).await
    }
}

/// Redirects are not followed, so that tests see them.
fn client() -> reqwest::Client {
    // Installs the cryptography of TLS, which the builder requires.
    http_client();
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

fn with_form(request: reqwest::RequestBuilder, form: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

fn with_keys() -> GatewaySettings {
    let mut settings = GatewaySettings::default();
    settings.keys = Keys::default().with("team", KEY).with("boss", OTHER_KEY).with_admin();
    settings
}

async fn complete(gateway: &TestGateway, key: Option<&str>, text: &str) -> u16 {
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": text}]});
    let request = http_client().post(gateway.url("/v1/chat/completions")).json(&body);
    let request = match key {
        Some(key) => request.bearer_auth(key),
        None => request,
    };
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn pages_have_a_strict_policy_and_are_not_stored() {
    let (mut browser, _) = Browser::start().await;
    let page = browser.get("/tools").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("require-trusted-types-for 'script'"));
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("referrer-policy"), "same-origin");
    assert_eq!(page.header("cache-control"), "private, no-cache");
    assert!(!page.text.contains("<script>") && !page.text.contains(" style="), "no inline script or style");
    // The same page again is not sent.
    let request = client().get(browser.gateway.url("/tools")).header("if-none-match", page.header("etag"));
    assert_eq!(browser.send(request, "text/html").await.status, 304);
}

#[tokio::test]
async fn files_are_cached_forever_and_only_under_their_hash() {
    let (mut browser, _) = Browser::start().await;
    let page = browser.get("/tools").await;
    let start = page.text.find("/-/assets/").unwrap();
    let path = page.text[start..].split('"').next().unwrap().to_owned();
    let file = browser.get(&path).await;
    assert_eq!((file.status, file.header("content-type")), (200, "text/css; charset=utf-8"));
    assert!(file.header("cache-control").contains("immutable"));
    assert_eq!(browser.get("/-/assets/0000/page.css").await.status, 404);
    assert_eq!(browser.get("/-/assets/../keys").await.status, 404);
}

#[tokio::test]
async fn changes_come_only_from_the_page_itself() {
    let (browser, _) = Browser::start().await;
    let url = browser.gateway.url("/-/theme");
    let send = |headers: &[(&str, &str)]| {
        let mut request = with_form(client().post(&url), &[("theme", "dark")]);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        async move { request.send().await.unwrap().status().as_u16() }
    };
    let own = format!("http://{}", browser.gateway.address);
    assert_eq!(send(&[("sec-fetch-site", "same-origin")]).await, 200);
    assert_eq!(send(&[("origin", &own)]).await, 200);
    assert_eq!(send(&[]).await, 403);
    assert_eq!(send(&[("sec-fetch-site", "cross-site")]).await, 403);
    assert_eq!(send(&[("sec-fetch-site", "same-site")]).await, 403);
    assert_eq!(send(&[("origin", "https://evil.example")]).await, 403);
    assert_eq!(send(&[("sec-fetch-site", "same-origin"), ("host", "evil.example")]).await, 403);
    let get = client().get(&url).header("sec-fetch-site", "same-origin").send().await.unwrap();
    assert_eq!((get.status().as_u16(), get.headers()["allow"].to_str().unwrap()), (405, "POST"));
}

#[tokio::test]
async fn every_change_needs_a_post_of_the_page_itself() {
    let (mut browser, _) = Browser::start().await;
    let reply = browser.post("/-/chat/send", &[("text", "say hello")], "application/json").await.json();
    let chat = reply["location"].as_str().unwrap().split(['/', '#']).nth(2).unwrap().to_owned();
    let mut paths: Vec<String> =
        ["/-/theme", "/-/sign-out", "/-/chat/send", "/-/attachments", "/-/dialects/try"]
            .map(str::to_owned)
            .into();
    paths.extend(["call"].map(|action| format!("/-/tools/lookup/{action}")));
    paths.extend(
        ["send", "edit", "retry", "stop", "rename", "delete", "decide"]
            .map(|action| format!("/-/chat/{chat}/{action}")),
    );
    paths.extend(
        ["check", "preview", "write", "demo/restart", "demo/remove"]
            .map(|action| format!("/-/servers/{action}")),
    );
    let own = format!("http://{}", browser.gateway.address);
    let url = |path: &str| browser.gateway.url(path);
    for path in &paths {
        let send = |method: reqwest::Method, headers: &[(&str, &str)]| {
            let form = [("text", "x"), ("act", "call"), ("title", "x"), ("theme", "dark")];
            let mut request =
                with_form(client().request(method, url(path)), &form).header("accept", "application/json");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            async move { request.send().await.unwrap().status().as_u16() }
        };
        let post = |headers: &'static [(&'static str, &'static str)]| send(reqwest::Method::POST, headers);
        assert_eq!(post(&[]).await, 403, "{path}: no source");
        assert_eq!(post(&[("sec-fetch-site", "cross-site")]).await, 403, "{path}: another site");
        assert_eq!(post(&[("sec-fetch-site", "same-site")]).await, 403, "{path}: another port");
        assert_eq!(post(&[("sec-fetch-site", "none")]).await, 403, "{path}: no page");
        assert_eq!(post(&[("origin", "null")]).await, 403, "{path}: a sandbox");
        assert_eq!(post(&[("origin", "https://evil.example")]).await, 403, "{path}: another origin");
        let rebound =
            [("host", "evil.example"), ("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")];
        assert_eq!(send(reqwest::Method::POST, &rebound).await, 403, "{path}: another name");
        for method in [reqwest::Method::GET, reqwest::Method::PUT, reqwest::Method::DELETE] {
            let status = send(method.clone(), &[("origin", &own), ("sec-fetch-site", "same-origin")]).await;
            assert_eq!(status, 405, "{method} {path}");
        }
    }
    let calls = browser.gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(calls, 0, "nothing was called");
    assert_eq!(browser.get(&format!("/chat/{chat}")).await.status, 200, "nothing was deleted");
    let list = browser.get("/").await.text;
    assert_eq!(list.matches("href=\"/chat/").count(), 1, "nothing was sent: {list}");
}

#[tokio::test]
async fn without_a_session_nothing_is_displayed_or_changed() {
    let (browser, _) = Browser::with(with_keys()).await;
    let send = |method: reqwest::Method, path: &'static str, accept: &'static str, cookie: &'static str| {
        let request =
            client().request(method, browser.gateway.url(path)).header("sec-fetch-site", "same-origin");
        let request = request.header("accept", accept).header("cookie", cookie);
        async move {
            let response = request.send().await.unwrap();
            let location = response.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
            (response.status().as_u16(), location.unwrap_or_default())
        }
    };
    let port = browser.gateway.address.port();
    let forged: &'static str = format!("toolwire-{port}={}", "0".repeat(64)).leak();
    for path in [
        "/",
        "/chat/x",
        "/servers",
        "/tools",
        "/tools.json",
        "/dialects",
        "/traffic.json",
        "/-/events?topics=traffic",
    ] {
        for cookie in ["", forged] {
            let (status, location) = send(reqwest::Method::GET, path, "text/html", cookie).await;
            assert_eq!(status, 303, "{path}");
            assert!(location.starts_with("/sign-in?next="), "{path}: {location}");
            assert_eq!(send(reqwest::Method::GET, path, "application/json", cookie).await.0, 401, "{path}");
        }
    }
    for path in ["/-/tools/lookup/call", "/-/chat/send", "/-/servers/demo/restart", "/-/theme"] {
        assert_eq!(send(reqwest::Method::POST, path, "application/json", forged).await.0, 401, "{path}");
    }
}

#[tokio::test]
async fn configured_web_pages_of_other_sites_get_only_the_apis() {
    let mut settings = GatewaySettings::default();
    settings.origins = vec!["https://chat.example".to_owned()];
    let (browser, _) = Browser::with(settings).await;
    let status = |path: &'static str| {
        let request = client().get(browser.gateway.url(path)).header("origin", "https://chat.example");
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(status("/v1/models").await, 200);
    assert_eq!(status("/tools").await, 403);
}

#[tokio::test]
async fn a_token_makes_an_administrator_once() {
    let (mut browser, token) = Browser::start().await;
    let html = "text/html";
    assert!(browser.get("/tools").await.text.contains("Sign in"));
    let wrong = browser.post("/sign-in", &[("key", "admin_wrong")], html).await;
    assert!(wrong.text.contains("not a valid key") && browser.cookies.is_empty());
    let signed_in = browser.post("/sign-in", &[("key", &token), ("next", "/tools")], html).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (303, "/tools"));
    let cookie = signed_in.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(browser.get("/tools").await.text.contains("admin"));
    let again = browser.post("/sign-in", &[("key", &token)], html).await;
    assert!(again.text.contains("not a valid key"));
    browser.post("/-/sign-out", &[], html).await;
    assert!(!browser.get("/tools").await.text.contains("admin"));
}

#[tokio::test]
async fn with_keys_a_visitor_signs_in_first() {
    let (mut browser, _) = Browser::with(with_keys()).await;
    let page = browser.get("/tools?q=a").await;
    assert_eq!((page.status, page.header("location")), (303, "/sign-in?next=%2Ftools%3Fq%3Da"));
    assert_eq!(browser.post("/-/tools/lookup/call", &[], "application/json").await.status, 401);
    assert_eq!(browser.get("/-/events?topics=traffic").await.status, 303);
    let foreign = browser.post("/sign-in", &[("key", KEY), ("next", "//evil.example")], "text/html").await;
    assert_eq!((foreign.status, foreign.header("location")), (303, "/"));
    let page = browser.get("/tools").await;
    assert!(page.status == 200 && page.text.contains("team") && !page.text.contains(KEY));
}

#[tokio::test]
async fn a_tool_is_called_by_hand() {
    let (mut browser, _) = Browser::start().await;
    let form = [("s/key", "set"), ("v/key", "<b>7</b>"), ("act", "call")];
    let page = browser.post("/-/tools/lookup/call", &form, "text/html").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("value of &lt;b&gt;7&lt;/b&gt;"), "{}", page.text);
    let changes = browser.post("/-/tools/lookup/call", &form, "application/json").await.json();
    let ids: Vec<&str> =
        changes["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["tool-form", "tool-calls"]);
    // A check makes no call.
    let calls = browser.gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
    browser.post("/-/tools/lookup/call", &[("act", "check")], "text/html").await;
    browser.get("/tools/lookup?args=%7B%22key%22%3A%221%22%7D").await;
    assert_eq!(browser.gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst), calls);
}

#[tokio::test]
async fn invalid_arguments_are_reported_at_their_field() {
    let (mut browser, _) = Browser::start().await;
    let form = [("s/milliseconds", "set"), ("v/milliseconds", "soon"), ("act", "call")];
    let page = browser.post("/-/tools/wait/call", &form, "text/html").await;
    assert!(page.text.contains("<code dir=\"auto\">soon</code> is not a number"), "{}", page.text);
    let form = [("s/milliseconds", "set"), ("v/milliseconds", "0.5"), ("act", "call")];
    let page = browser.post("/-/tools/wait/call", &form, "text/html").await;
    assert!(page.text.contains("is not an integer"), "{}", page.text);
    assert_eq!(browser.gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_denied_tool_is_not_called() {
    let mut settings = GatewaySettings::default();
    settings.agent.approvals = settings.agent.approvals.deny("lookup");
    let (mut browser, _) = Browser::with(settings).await;
    let page = browser.post("/-/tools/lookup/call", &[("act", "call")], "text/html").await;
    assert_eq!(page.status, 403);
    assert!(browser.get("/tools/lookup").await.text.contains("the configuration denies"));
}

#[tokio::test]
async fn images_of_results_are_files_in_a_sandbox() {
    let (mut browser, _) = Browser::start().await;
    let page = browser.post("/-/tools/picture/call", &[("act", "call")], "text/html").await;
    let start = page.text.find("<img src=\"").unwrap() + 10;
    let path = page.text[start..].split('"').next().unwrap().to_owned();
    let image = browser.get(&path).await;
    assert_eq!((image.status, image.header("content-type")), (200, "image/png"));
    assert_eq!(image.header("content-security-policy"), "sandbox; default-src 'none'");
}

#[tokio::test]
async fn the_search_is_the_one_of_the_model() {
    let (mut browser, _) = Browser::start().await;
    let found = browser.get("/tools.json?q=picture").await.json();
    let names: Vec<&str> =
        found["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names.first(), Some(&"picture"));
    assert!(found["tools"][0]["score"].as_f64().unwrap() > 0.0);
    assert_eq!(browser.get("/tools/lookup.json").await.json()["name"], "lookup");
    assert_eq!(browser.get("/tools/nothing").await.status, 404);
}

#[tokio::test]
async fn the_order_and_the_scores_are_those_of_the_search() {
    let (mut browser, _) = Browser::start().await;
    let listed = browser.get("/tools.json").await.json();
    let names =
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    let mut tools: Vec<Tool> = Vec::new();
    for name in names.collect::<Vec<_>>() {
        tools.push(serde_json::from_value(browser.get(&format!("/tools/{name}.json")).await.json()).unwrap());
    }
    let server = Some(ToolServer { name: "demo".to_owned(), title: None });
    let index = ToolIndex::with_servers(tools.clone().into(), &vec![server; tools.len()]);
    for query in [
        "picture",
        "the tool picture",
        "wait milliseconds",
        "demo lookup",
        "key",
        "DELETE",
        "nothing-like-it",
    ] {
        let path = format!("/tools.json?q={}", query.replace(' ', "+"));
        let found = browser.get(&path).await.json();
        let found: Vec<(String, f64)> = found["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["score"].as_f64().unwrap()))
            .collect();
        let expected: Vec<(String, f64)> = index
            .search(query, 50)
            .iter()
            .map(|hit| (hit.tool.name.clone(), serde_json::to_value(hit.score).unwrap().as_f64().unwrap()))
            .collect();
        assert_eq!(found, expected, "{query}");
        assert_eq!(found.is_empty(), query == "nothing-like-it", "{query}");
    }
}

#[tokio::test]
async fn requests_appear_in_the_traffic() {
    let (mut browser, _) = Browser::start().await;
    assert!(browser.get("/traffic").await.text.contains("no requests yet"));
    assert_eq!(complete(&browser.gateway, None, "ours").await, 200);
    let unknown = json!({"model": "unknown", "messages": [{"role": "user", "content": "x"}]});
    let url = browser.gateway.url("/v1/chat/completions");
    http_client().post(url).json(&unknown).send().await.unwrap();
    let requests = browser.get("/traffic.json").await.json();
    let requests = requests["requests"].as_array().unwrap();
    let outcomes: Vec<&str> = requests.iter().map(|request| request["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["clientError", "ok"], "the newest first");
    assert_eq!(requests[1]["calls"][0]["tool"], "lookup");
    assert_eq!(requests[1]["steps"].as_array().unwrap().len(), 2);
    let page = browser.get(&format!("/traffic/{}", requests[1]["id"].as_str().unwrap())).await;
    assert!(page.status == 200 && page.text.contains("svg class=\"timeline\""), "{}", page.text);
    let filtered = browser.get("/traffic.json?outcome=ok").await.json();
    assert_eq!(filtered["requests"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn requests_of_other_keys_are_visible_only_to_administrators() {
    let (mut browser, _) = Browser::with(with_keys()).await;
    assert_eq!(complete(&browser.gateway, Some(OTHER_KEY), "hello").await, 200);
    browser.post("/sign-in", &[("key", KEY)], "text/html").await;
    let requests = browser.get("/traffic.json").await.json();
    assert_eq!(requests["requests"].as_array().unwrap().len(), 0);
    assert_eq!(browser.get("/-/events?topics=traffic").await.status, 403);
    browser.post("/sign-in", &[("key", OTHER_KEY)], "text/html").await;
    let requests = browser.get("/traffic.json").await.json();
    assert_eq!(requests["requests"][0]["key"], "boss");
}

#[tokio::test]
async fn each_tool_is_displayed_beside_its_definition() {
    let (mut browser, _) = Browser::start().await;
    let matrix = browser.get("/dialects").await;
    assert_eq!(matrix.status, 200);
    assert!(matrix.text.contains("href=\"/dialects/lookup?to=gemini\""), "{}", matrix.text);
    let pair = browser.get("/dialects/lookup?to=gemini").await;
    assert!(pair.status == 200 && pair.text.contains("data-dialect=\"gemini\""), "{}", pair.text);
    let all = browser.get("/dialects/lookup").await;
    assert!(all.text.contains("Changes in all dialects"), "{}", all.text);
    let data = browser.get("/dialects/lookup.json?to=gemini").await.json();
    assert_eq!(data["comparisons"].as_array().unwrap().len(), 1);
    assert_eq!(data["comparisons"][0]["report"]["dialect"], "gemini");
    assert_eq!(browser.get("/dialects/nothing").await.status, 404);
    let unknown = browser.get("/dialects/lookup?to=latin").await;
    assert!(unknown.status == 404 && unknown.text.contains("gemini-openapi"), "{}", unknown.text);
}

#[tokio::test]
async fn arguments_are_converted_for_the_other_side() {
    let (mut browser, _) = Browser::start().await;
    let tool =
        r#"{"name": "f", "inputSchema": {"type": "object", "properties": {"a b": {"type": "integer"}}}}"#;
    let fields = |side, arguments| {
        [
            ("tool", tool),
            ("from", "mcp"),
            ("to", "anthropic"),
            ("side", side),
            ("arguments", arguments),
            ("id", "x-"),
        ]
    };
    let path = "/-/dialects/arguments";
    let page = browser.post(path, &fields("left", r#"{"a b": 7}"#), "text/html").await;
    assert!(page.status == 200 && page.text.contains("&quot;a_b&quot;: 7"), "{}", page.text);
    let changes = browser.post(path, &fields("right", r#"{"a_b": "8"}"#), "application/json").await.json();
    let changed: Vec<&str> =
        changes["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(changed, ["x-notes-right", "x-arguments-left"]);
    assert!(changes["events"][1]["html"].as_str().unwrap().contains("&quot;a b&quot;: 8"), "{changes}");
    assert_eq!(browser.post(path, &fields("up", "{}"), "text/html").await.status, 400);
    assert_eq!(browser.get(path).await.status, 405);
    let listed = [("from", "mcp"), ("to", "gemini"), ("side", "left"), ("arguments", "{")];
    let page = browser.post("/-/dialects/lookup/arguments", &listed, "text/html").await;
    assert!(page.status == 200 && page.text.contains("not valid JSON"), "{}", page.text);
}

#[tokio::test]
async fn a_pasted_tool_is_compared_in_all_dialects() {
    let (mut browser, _) = Browser::start().await;
    let empty = browser.get("/dialects/try").await;
    assert!(empty.text.contains("Paste a tool") && !empty.text.contains("book_table"), "{}", empty.text);
    assert!(empty.text.contains("href=\"/dialects/try?example=yes\""), "{}", empty.text);
    let example = browser.get("/dialects/try?example=yes").await;
    assert!(example.status == 200 && example.text.contains("moved to the description"), "{}", example.text);
    let tool = r#"{"name": "</textarea><script>", "inputSchema": {"type": "object", "properties": {
        "from": {"type": "string", "pattern": "^[A-Z]{3}$"}}}}"#;
    let page = browser.post("/-/dialects/try", &[("text", tool)], "text/html").await;
    assert!(page.status == 200 && page.text.contains("moved to the description"), "{}", page.text);
    assert!(!page.text.contains("</textarea><script>"), "{}", page.text);
    let page = browser.post("/-/dialects/try", &[("text", "{")], "text/html").await;
    assert!(page.status == 200 && page.text.contains("at line 1"), "{}", page.text);
    let long = "x".repeat(300 * 1024);
    assert_eq!(browser.post("/-/dialects/try", &[("text", &long)], "text/html").await.status, 400);
    assert_eq!(browser.get("/-/dialects/try").await.status, 405);
}
