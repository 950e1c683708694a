//! The chat view: messages, responses that need no browser, decisions, branches, files.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{PNG, TestGateway};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwire_contract::conversations::{ConversationId, Conversations, NewConversation, NewEntry};
use toolwire_contract::{Block, Content, Message, Role, ToolResult};
use toolwire_gateway::{
    GatewaySettings, Keys,
    page::{PageParts, RunStorage},
};
use toolwire_store::InMemory;
use toolwire_testkit::http_client;

/// A browser, and the store behind the page.
struct Browser {
    gateway: TestGateway,
    store: Arc<dyn Conversations>,
}

/// Runs that outlive a gateway.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<HashMap<String, String>>>);

impl RunStorage for Memory {
    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn save(&self, name: String, text: String) -> BoxFuture<'_, io::Result<()>> {
        self.0.lock().unwrap().insert(name, text);
        Box::pin(async { Ok(()) })
    }

    fn load(&self, name: String) -> BoxFuture<'_, io::Result<String>> {
        let text = self.0.lock().unwrap().get(&name).cloned();
        Box::pin(async { text.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }

    fn remove(&self, name: String) -> BoxFuture<'_, io::Result<()>> {
        self.0.lock().unwrap().remove(&name);
        Box::pin(async { Ok(()) })
    }
}

/// Adds a form to a request.
fn form(request: reqwest::RequestBuilder, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// Returns a client that does not follow redirects.
fn client_without_redirects() -> reqwest::Client {
    // It also sets up TLS for all clients.
    http_client();
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

impl Browser {
    async fn start() -> Browser {
        Browser::with(Arc::new(InMemory::new()), Memory::default()).await
    }

    async fn with(store: Arc<dyn Conversations>, runs: Memory) -> Browser {
        let parts = PageParts::new(store.clone()).with_waiting_runs(Arc::new(runs));
        let gateway = TestGateway::with_page_parts(GatewaySettings::default(), parts).await;
        Browser { gateway, store }
    }

    fn request(&self, path: &str) -> reqwest::RequestBuilder {
        let request = http_client().post(self.gateway.url(path)).header("sec-fetch-site", "same-origin");
        request.header("accept", "application/json")
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> (u16, Value) {
        let response = form(self.request(path), fields).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Posts a form that must succeed.
    async fn act(&self, path: &str, fields: &[(&str, &str)]) -> Value {
        let (status, reply) = self.post(path, fields).await;
        assert_eq!(status, 200, "{path}: {reply}");
        reply
    }

    async fn page(&self, path: &str) -> String {
        let request = http_client().get(self.gateway.url(path)).header("accept", "text/html");
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.text().await.unwrap()
    }

    /// Starts a conversation and returns its id.
    async fn begin(&self, text: &str) -> ConversationId {
        let reply = self.act("/-/chat/send", &[("text", text)]).await;
        let location = reply["location"].as_str().unwrap();
        location.strip_prefix("/chat/").unwrap().split('#').next().unwrap().parse().unwrap()
    }

    /// Waits until the page of a conversation contains a text, and returns it.
    async fn until(&self, id: &ConversationId, text: &str) -> String {
        let mut page = String::new();
        for _ in 0..6_000 {
            page = self.page(&format!("/chat/{id}")).await;
            if page.contains(text) {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the page never contains `{text}`:\n{page}");
    }

    async fn until_idle(&self, id: &ConversationId) -> String {
        self.until(id, ">Send</button>").await
    }

    async fn roles(&self, id: &ConversationId) -> String {
        let entries = self.store.load(id, 0).await.unwrap().entries;
        entries.iter().map(|entry| if entry.message.role == Role::User { 'u' } else { 'a' }).collect()
    }
}

#[tokio::test]
async fn a_message_is_answered_and_both_are_stored() {
    let browser = Browser::start().await;
    let id = browser.begin("say # Title\n\nhello <b>there</b>").await;
    let page = browser.until_idle(&id).await;
    assert!(
        page.contains("id=\"m1\"") && page.contains("id=\"m2\"") && page.contains("id=\"m2-0\""),
        "{page}"
    );
    assert!(page.contains("hello &lt;b&gt;there&lt;/b&gt;") && !page.contains("<b>there"), "{page}");
    let conversation = browser.store.get(&id).await.unwrap();
    assert_eq!((conversation.messages, conversation.title.as_deref()), (2, Some("say # Title")));
    assert!(browser.page("/").await.contains(&format!("/chat/{id}")));

    browser.act(&format!("/-/chat/{id}/send"), &[("text", "say more")]).await;
    browser.until(&id, "id=\"m4\"").await;
    browser.until_idle(&id).await;
    let text = browser.page(&format!("/-/chat/{id}/messages/4/text")).await;
    assert_eq!(text, "more");
    let markdown = browser.page(&format!("/chat/{id}.md")).await;
    assert!(markdown.contains("## You\n\nsay more"), "{markdown}");
    let export = browser.page(&format!("/chat/{id}.json")).await;
    assert_eq!(export, browser.store.export(&id).await.unwrap());
}

#[tokio::test]
async fn an_empty_message_is_refused_at_its_field() {
    let browser = Browser::start().await;
    let (status, reply) = browser.post("/-/chat/send", &[("text", " \n")]).await;
    assert_eq!((status, &reply["error"]["field"]), (400, &json!("text")), "{reply}");
    assert_eq!(browser.store.list(9, None).await.unwrap().conversations, []);
}

#[tokio::test]
async fn a_call_runs_with_changed_arguments_and_only_the_first_decision_counts() {
    let browser = Browser::start().await;
    let id = browser.begin("delete").await;
    let page = browser.until(&id, "data-state=\"waiting\"").await;
    assert!(page.contains("name=\"decision\" value=\"once\""), "{page}");
    let decide = format!("/-/chat/{id}/decide");
    let invalid = [("call", "2-0"), ("decision", "once"), ("arguments", "{")];
    let (status, reply) = browser.post(&decide, &invalid).await;
    assert_eq!((status, &reply["error"]["field"]), (400, &json!("arguments")), "{reply}");
    let changed = [("call", "2-0"), ("decision", "once"), ("arguments", "{\"key\": \"mine\"}")];
    browser.act(&decide, &changed).await;
    let (status, _) = browser.post(&decide, &changed).await;
    assert_eq!(status, 409);
    let page = browser.until_idle(&id).await;
    assert!(page.contains("data-state=\"done\"") && page.contains("ran with your arguments"), "{page}");
    let last = browser.store.load(&id, 2).await.unwrap().entries;
    let (_, result) = last[0].message.results().next().unwrap();
    let text = serde_json::to_string(result).unwrap();
    assert!(text.contains("It ran with: {\\\"key\\\":\\\"mine\\\"}"), "{text}");
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_the_model_gets_the_reason() {
    let browser = Browser::start().await;
    let id = browser.begin("delete").await;
    browser.until(&id, "data-state=\"waiting\"").await;
    let fields = [("call", "2-0"), ("decision", "no"), ("because", "wrong folder")];
    browser.act(&format!("/-/chat/{id}/decide"), &fields).await;
    let page = browser.until_idle(&id).await;
    assert!(page.contains("data-state=\"denied\"") && page.contains("wrong folder"), "{page}");
}

#[tokio::test]
async fn a_decision_can_come_after_a_restart() {
    let (store, runs) = (Arc::new(InMemory::new()), Memory::default());
    let browser = Browser::with(store.clone(), runs.clone()).await;
    let id = browser.begin("delete").await;
    browser.until(&id, "data-state=\"waiting\"").await;
    // The run is saved after the question is displayed.
    while runs.names().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(browser);
    let browser = Browser::with(store, runs.clone()).await;
    assert!(browser.page("/").await.contains("waits for you"));
    browser.until(&id, "data-state=\"waiting\"").await;
    browser.act(&format!("/-/chat/{id}/decide"), &[("call", "2-0"), ("decision", "once")]).await;
    let page = browser.until_idle(&id).await;
    assert!(page.contains("data-state=\"done\"") && page.contains("deleted"), "{page}");
    assert_eq!(runs.names(), Vec::<String>::new());
}

/// A server can ask before the page knows that its call runs.
#[tokio::test]
async fn a_question_at_the_start_of_a_call_is_displayed() {
    let browser = Browser::start().await;
    let id = browser.begin("question").await;
    let page = browser.until(&id, "asks:</p>").await;
    assert!(page.contains("Which branch?") && page.contains("data-state=\"waiting\""), "{page}");
    let reply = [("question", "1"), ("reply", "cancel")];
    browser.act(&format!("/-/chat/{id}/answer"), &reply).await;
    let page = browser.until_idle(&id).await;
    assert!(page.contains("reply: Cancel"), "{page}");
}

#[tokio::test]
async fn a_response_can_be_stopped() {
    let browser = Browser::start().await;
    let id = browser.begin("wait").await;
    browser.until(&id, "data-state=\"running\"").await;
    let (status, reply) = browser.post(&format!("/-/chat/{id}/send"), &[("text", "say x")]).await;
    assert_eq!(status, 409, "{reply}");
    browser.act(&format!("/-/chat/{id}/stop"), &[]).await;
    let page = browser.until_idle(&id).await;
    assert!(page.contains(">stopped<"), "{page}");
    // A call that waits is cancelled too.
    let id = browser.begin("delete").await;
    browser.until(&id, "data-state=\"waiting\"").await;
    browser.act(&format!("/-/chat/{id}/stop"), &[]).await;
    let page = browser.until_idle(&id).await;
    assert!(page.contains("cancelled before it started"), "{page}");
}

#[tokio::test]
async fn an_error_of_the_model_is_displayed_and_the_message_can_be_sent_again() {
    let browser = Browser::start().await;
    let id = browser.begin("status 400").await;
    let page = browser.until(&id, "the provider says no").await;
    assert!(page.contains("Retry"), "{page}");
    browser.act(&format!("/-/chat/{id}/retry"), &[("position", "1")]).await;
    browser.until(&id, "the provider says no").await;
    assert_eq!(browser.roles(&id).await, "u", "no message is sent twice");
}

#[tokio::test]
async fn retries_and_edits_are_branches() {
    let browser = Browser::start().await;
    let id = browser.begin("say one").await;
    browser.until_idle(&id).await;
    let target = |reply: &Value| -> ConversationId {
        let location = reply["location"].as_str().unwrap();
        location.strip_prefix("/chat/").unwrap().split('#').next().unwrap().parse().unwrap()
    };
    let reply = browser.act(&format!("/-/chat/{id}/retry"), &[("position", "2")]).await;
    let retried = target(&reply);
    assert_ne!(retried, id);
    let page = browser.until_idle(&retried).await;
    assert!(page.contains("2/2") && page.contains(&format!("/chat/{id}#m2")), "{page}");
    let edit = [("position", "1"), ("text", "say two")];
    let edited = target(&browser.act(&format!("/-/chat/{retried}/edit"), &edit).await);
    let page = browser.until_idle(&edited).await;
    assert!(page.contains("two") && page.contains("2/2"), "{page}");
    assert_eq!(browser.store.get(&edited).await.unwrap().title.as_deref(), Some("say two"));
    assert_eq!(browser.store.load(&id, 0).await.unwrap().entries.len(), 2, "the original stays");
}

#[tokio::test]
async fn a_conversation_is_renamed_found_and_deleted() {
    let browser = Browser::start().await;
    let id = browser.begin("say needle").await;
    browser.until_idle(&id).await;
    let title = "<script>alert(1)</script>\u{202e}";
    browser.act(&format!("/-/chat/{id}/rename"), &[("title", title)]).await;
    assert_eq!(browser.store.get(&id).await.unwrap().title.as_deref(), Some(title));
    let page = browser.page("/?q=needle").await;
    assert!(page.contains(&format!("/chat/{id}#m1")) && !page.contains("<script>alert"), "{page}");
    let reply = browser.act(&format!("/-/chat/{id}/delete"), &[]).await;
    assert_eq!(reply["location"], "/");
    assert!(browser.store.get(&id).await.is_err());
}

#[tokio::test]
async fn files_are_attached_by_their_content_and_names_are_only_names() {
    let browser = Browser::start().await;
    use base64::Engine as _;
    let png = base64::prelude::BASE64_STANDARD.decode(PNG).unwrap();
    let upload = |name: &'static str, bytes: Vec<u8>| {
        let head =
            format!("--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n");
        let body = [head.as_bytes(), &bytes, b"\r\n--X--\r\n"].concat();
        let request =
            browser.request("/-/attachments").header("content-type", "multipart/form-data; boundary=X");
        request.body(body).send()
    };
    let reply: Value = upload("../<img src=x>.txt", png).await.unwrap().json().await.unwrap();
    let html = reply["events"][0]["html"].as_str().unwrap();
    assert!(html.contains("image/png") && !html.contains("<img"), "{html}");
    let attachment = html.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
    let response = upload("a.bin", vec![b'a', 0xff]).await.unwrap();
    assert_eq!(response.status(), 400);
    let reply = browser.act("/-/chat/send", &[("text", "say seen"), ("attachment", attachment)]).await;
    let id: ConversationId = reply["location"].as_str().unwrap()["/chat/".len()..].parse().unwrap();
    let page = browser.until_idle(&id).await;
    assert!(page.contains(&format!("src=\"/-/media/{id}/1/0\"")), "{page}");
    let image = http_client().get(browser.gateway.url(&format!("/-/media/{id}/1/0"))).send().await.unwrap();
    assert_eq!(image.headers()["content-type"], "image/png");
    assert!(image.headers()["content-security-policy"].to_str().unwrap().starts_with("sandbox"));
}

#[tokio::test]
async fn media_of_results_are_served_and_other_types_are_not() {
    let browser = Browser::start().await;
    let id = browser.begin("picture").await;
    let page = browser.until_idle(&id).await;
    let path = format!("/-/chat/{id}/calls/2-0/media-1");
    assert!(page.contains(&format!("src=\"{path}\"")), "{page}");
    let get = async |path: &str| http_client().get(browser.gateway.url(path)).send().await.unwrap();
    assert_eq!(get(&path).await.headers()["content-type"], "image/png");
    let result: Value = get(&format!("/-/chat/{id}/calls/2-0/result.json")).await.json().await.unwrap();
    assert_eq!(result["content"][0]["text"], "a dot");
    let svg = Content::attached_file("x.svg", "image/svg+xml", "PHN2Zz4=");
    let message = Message::new(Role::User, vec![Block::Content(svg)]);
    let position = browser.store.append(&id, vec![message.into()], None).await.unwrap();
    assert_eq!(get(&format!("/-/media/{id}/{position}/0")).await.status(), 404);
}

#[tokio::test]
async fn forms_work_without_the_module() {
    let browser = Browser::start().await;
    let client = client_without_redirects();
    let post = async |path: &str, fields: &[(&str, &str)]| {
        let request = client.post(browser.gateway.url(path)).header("accept", "text/html");
        let request = request.header("sec-fetch-site", "same-origin");
        let response = form(request, fields).send().await.unwrap();
        assert_eq!(response.status(), 303, "{path}");
        response.headers()["location"].to_str().unwrap().to_owned()
    };
    let location = post("/-/chat/send", &[("text", "delete")]).await;
    let id: ConversationId = location["/chat/".len()..].parse().unwrap();
    let page = browser.until(&id, "data-state=\"waiting\"").await;
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\""), "{page}");
    post(&format!("/-/chat/{id}/decide"), &[("call", "2-0"), ("decision", "once")]).await;
    let page = browser.until_idle(&id).await;
    assert!(!page.contains("http-equiv=\"refresh\""), "{page}");
}

#[tokio::test]
async fn long_conversations_are_drawn_in_sections() {
    let browser = Browser::start().await;
    let id = browser.store.begin(NewConversation::default()).await.unwrap().id;
    let mut entries: Vec<NewEntry> = Vec::new();
    for number in 1..=60 {
        let call = toolwire_contract::ToolCall::new("lookup", serde_json::Map::new());
        let response = Message::new(Role::Assistant, vec![Block::Call { id: "1".to_owned(), call }]);
        let result = ToolResult::text(format!("value {number}"));
        let results = Message::new(Role::User, vec![Block::Result { id: "1".to_owned(), result }]);
        entries.extend([Message::user(format!("question {number}")).into(), response.into(), results.into()]);
    }
    browser.store.append(&id, entries, None).await.unwrap();
    let page = browser.page(&format!("/chat/{id}")).await;
    assert_eq!(page.matches("<section class=\"window\"").count(), 4);
    assert!(page.contains("id=\"m178\"") && !page.contains("id=\"m100\""), "{page}");
    let section = browser.page(&format!("/-/chat/{id}/window?from=51")).await;
    assert!(section.contains("id=\"m52\"") && section.contains("id=\"m100\""), "{section}");
    assert!(!section.contains("id=\"m101\"") && !section.contains("id=\"m50\""), "{section}");
    // Message 50 has a call whose result is in the next section.
    let first = browser.page(&format!("/-/chat/{id}/window?from=1")).await;
    assert!(first.contains("value 17"), "{first}");
}

#[tokio::test]
async fn open_pages_get_every_change_as_an_event() {
    let browser = Browser::start().await;
    let id = browser.begin("say first").await;
    let page = browser.until_idle(&id).await;
    let last = page.split("data-event=\"").nth(1).unwrap().split('"').next().unwrap();
    let url = browser.gateway.url(&format!("/-/events?topics=chat.{id}&after={last}"));
    let mut stream = http_client().get(url).send().await.unwrap();
    browser.act(&format!("/-/chat/{id}/send"), &[("text", "thinking")]).await;
    let mut received = String::new();
    // The end of a response is the button that sends.
    while !received.contains(">Send</button>") {
        let chunk = stream.chunk().await.unwrap().expect("an open stream");
        received.push_str(&String::from_utf8_lossy(&chunk));
    }
    for expected in ["\"id\":\"m3\"", "\"id\":\"m4\"", "Let me think.", "Done.", "event: say", "event: title"]
    {
        assert!(received.contains(expected), "{expected}: {received}");
    }
}

#[tokio::test]
async fn with_several_keys_only_an_administrator_sees_conversations() {
    let keys = Keys::default().with("one", &"1".repeat(32)).with("two", &"2".repeat(32));
    let mut settings = GatewaySettings::default();
    settings.keys = keys;
    let store: Arc<dyn Conversations> = Arc::new(InMemory::new());
    let gateway = TestGateway::with_page_parts(settings, PageParts::new(store)).await;
    let client = client_without_redirects();
    let sign_in = client.post(gateway.url("/sign-in")).header("sec-fetch-site", "same-origin");
    let sign_in = sign_in.header("accept", "text/html");
    let response = form(sign_in, &[("key", &"1".repeat(32))]).send().await.unwrap();
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    for path in ["/-/events?topics=chat", "/-/chat/send", "/chat/017f22e2-79b0-7cc3-98c4-dc0c0c07398f"] {
        let response = client.get(gateway.url(path)).header("cookie", &cookie).send().await.unwrap();
        assert_eq!(response.status(), 403, "{path}");
    }
}
