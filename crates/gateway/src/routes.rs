//! The table of the gateway's paths.

use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use toolwire_dialect::Family;
use toolwire_dialect::client::ErrorKind;

use crate::mcp::{self, authorization};
use crate::page::Page;
use crate::response::Failure;

/// The handler of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A request to a model.
    Complete(Family),
    /// An estimate of the tokens of a request.
    CountTokens(Family),
    /// The stored response with this id.
    Response(String),
    DeleteResponse(String),
    CancelResponse(String),
    /// The items before the response with this id.
    InputItems(String),
    CreateConversation,
    /// The conversation with this id.
    Conversation(String),
    UpdateConversation(String),
    DeleteConversation(String),
    /// The items of the conversation with this id.
    Items(String),
    CreateItems(String),
    /// An item of a conversation: `CONVERSATION/items/ITEM`.
    Item(String),
    DeleteItem(String),
    Models,
    /// The model with this name.
    Model(String),
    /// A path of OpenAI's API below `/v1` that the gateway does not implement. The request is sent to the
    /// provider.
    PassThrough(&'static str),
    /// Like [`Route::PassThrough`], for a path whose requests are forms with files.
    PassFormThrough(&'static str),
    /// All servers as one MCP server.
    Mcp,
    /// The metadata about tokens for it.
    ProtectedResource,
    Health,
    Ready,
    /// Needs an administrator's key, or none from this machine.
    Metrics,
}

/// A path and its method, as listed by [`Gateway::routes`](crate::Gateway::routes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteInfo {
    pub method: &'static str,
    /// `{model}` matches the rest of the path, and other names in braces match a part without `/`.
    pub path: &'static str,
    /// Whether it needs no key. `/metrics` needs none only from this machine.
    pub is_public: bool,
}

type NewRoute = fn(&str) -> Route;

const ROUTES: [(RouteInfo, NewRoute); 36] = [
    post("/v1/chat/completions", |_| Route::Complete(Family::OpenAiChat)),
    post("/v1/responses", |_| Route::Complete(Family::OpenAiResponses)),
    post("/v1/messages", |_| Route::Complete(Family::Anthropic)),
    post("/v1/messages/count_tokens", |_| Route::CountTokens(Family::Anthropic)),
    post("/v1/responses/input_tokens", |_| Route::CountTokens(Family::OpenAiResponses)),
    get("/v1/responses/{response}/input_items", false, |id| Route::InputItems(id.to_owned())),
    get("/v1/responses/{response}", false, |id| Route::Response(id.to_owned())),
    delete("/v1/responses/{response}", |id| Route::DeleteResponse(id.to_owned())),
    post("/v1/responses/{response}/cancel", |id| Route::CancelResponse(id.to_owned())),
    post("/v1/conversations", |_| Route::CreateConversation),
    get("/v1/conversations/{conversation}", false, |id| Route::Conversation(id.to_owned())),
    post("/v1/conversations/{conversation}", |id| Route::UpdateConversation(id.to_owned())),
    delete("/v1/conversations/{conversation}", |id| Route::DeleteConversation(id.to_owned())),
    get("/v1/conversations/{conversation}/items", false, |id| Route::Items(id.to_owned())),
    post("/v1/conversations/{conversation}/items", |id| Route::CreateItems(id.to_owned())),
    get("/v1/conversations/{conversation}/items/{item}", false, |ids| Route::Item(ids.to_owned())),
    delete("/v1/conversations/{conversation}/items/{item}", |ids| Route::DeleteItem(ids.to_owned())),
    get("/v1/models", false, |_| Route::Models),
    get("/v1/models/{model}", false, |rest| {
        Route::Model(percent_decode_str(rest).decode_utf8_lossy().into_owned())
    }),
    // Paths of OpenAI's API that do not refer to stored data.
    post("/v1/embeddings", |_| Route::PassThrough("embeddings")),
    post("/v1/completions", |_| Route::PassThrough("completions")),
    post("/v1/moderations", |_| Route::PassThrough("moderations")),
    post("/v1/images/generations", |_| Route::PassThrough("images/generations")),
    post("/v1/audio/speech", |_| Route::PassThrough("audio/speech")),
    post("/v1/audio/transcriptions", |_| Route::PassFormThrough("audio/transcriptions")),
    post("/v1/audio/translations", |_| Route::PassFormThrough("audio/translations")),
    post("/v1/images/edits", |_| Route::PassFormThrough("images/edits")),
    post("/v1/images/variations", |_| Route::PassFormThrough("images/variations")),
    post(mcp::PATH, |_| Route::Mcp),
    get(mcp::PATH, false, |_| Route::Mcp),
    delete(mcp::PATH, |_| Route::Mcp),
    // Public if there are issuers of tokens.
    get(authorization::PATH, false, |_| Route::ProtectedResource),
    get(authorization::MCP_PATH, false, |_| Route::ProtectedResource),
    get("/healthz", true, |_| Route::Health),
    get("/readyz", true, |_| Route::Ready),
    get("/metrics", true, |_| Route::Metrics),
];

const fn post(path: &'static str, route: NewRoute) -> (RouteInfo, NewRoute) {
    (RouteInfo { method: "POST", path, is_public: false }, route)
}

const fn get(path: &'static str, is_public: bool, route: NewRoute) -> (RouteInfo, NewRoute) {
    (RouteInfo { method: "GET", path, is_public }, route)
}

const fn delete(path: &'static str, route: NewRoute) -> (RouteInfo, NewRoute) {
    (RouteInfo { method: "DELETE", path, is_public: false }, route)
}

/// Returns the part of a path from the first name in braces of a pattern to the last one; an empty text if the
/// pattern has none. `None` if the path does not match.
fn matched<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((start, _)) = pattern.split_once('{') else { return (path == pattern).then_some("") };
    let (_, end) = pattern.rsplit_once('}').unwrap_or_default();
    let part = path.strip_prefix(start)?.strip_suffix(end).filter(|part| !part.is_empty())?;
    let is_segment =
        |(pattern, found): (&str, &str)| pattern == found || (pattern.starts_with('{') && !found.is_empty());
    let is_match = pattern.split('/').count() == path.split('/').count()
        && pattern.split('/').zip(path.split('/')).all(is_segment);
    (is_match || pattern.ends_with("{model}")).then_some(part)
}

/// Returns all paths.
pub(crate) fn all() -> impl Iterator<Item = RouteInfo> {
    ROUTES.iter().map(|(info, _)| *info)
}

/// Finds the handler of a path, and whether it needs no key. The path is compared as sent, without
/// normalization.
pub(crate) fn find(method: &Method, path: &str) -> Result<(Route, bool), Failure> {
    let mut allowed: Vec<&str> = Vec::new();
    // A path without a name in braces is not the id of something.
    let is_exact = ROUTES.iter().any(|(info, _)| info.path == path);
    for (info, route) in ROUTES.iter().filter(|(info, _)| !is_exact || info.path == path) {
        let Some(rest) = matched(info.path, path) else { continue };
        if method.as_str() == info.method || (method == Method::HEAD && info.method == "GET") {
            return Ok((route(rest), info.is_public));
        }
        allowed.push(info.method);
    }
    Err(match allowed.join(", ") {
        methods if !methods.is_empty() => {
            let message = format!("`{path}` does not support {method}, only {methods}");
            let failure = Failure::new(ErrorKind::InvalidRequest, message);
            Failure {
                status: Some(http::StatusCode::METHOD_NOT_ALLOWED),
                allow: Some(methods.into()),
                ..failure
            }
        }
        _ => Failure::new(ErrorKind::NotFound, unknown_path(path)),
    })
}

/// Returns the pattern of a path, for metrics: one of those in the table, or a fixed text.
pub(crate) fn pattern(path: &str) -> &'static str {
    let exact = ROUTES.iter().find(|(info, _)| info.path == path);
    let found = exact.or_else(|| ROUTES.iter().find(|(info, _)| matched(info.path, path).is_some()));
    let found = found.map(|(info, _)| info.path);
    found.unwrap_or(if Page::has_path(path) { "/{page}" } else { "other" })
}

/// Whether requests to a path with this pattern are parts of distributed traces.
pub(crate) fn is_traced(pattern: &str) -> bool {
    pattern.starts_with("/v1/") || pattern == mcp::PATH
}

/// Whether a path reports the state of the gateway. Such a path also works while the gateway stops.
pub(crate) fn is_status(path: &str) -> bool {
    ["/healthz", "/readyz", "/metrics"].contains(&path)
}

/// Returns a message that explains common mistakes in a base URL.
fn unknown_path(path: &str) -> String {
    let exists = |path: &str| ROUTES.iter().any(|(info, _)| info.path == path);
    if let Some(rest) = path.strip_prefix("/v1/v1/").filter(|rest| exists(&format!("/v1/{rest}"))) {
        return format!(
            "unknown path `{path}`: remove `/v1` from the base URL, because the client adds it (`/v1/{rest}`)"
        );
    }
    let without_slash = path.trim_end_matches('/');
    if exists(without_slash) {
        return format!("unknown path `{path}`: remove the `/` at its end");
    }
    if exists(&format!("/v1{path}")) {
        return format!("unknown path `{path}`: add `/v1` to the base URL");
    }
    format!("unknown path `{path}`")
}

/// Returns the API whose format is used for errors. If the path does not determine it, the headers do.
pub(crate) fn family_of(path: &str, headers: &HeaderMap) -> Family {
    let is_below =
        |start: &str| path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_below("/v1/messages") {
        Family::Anthropic
    } else if is_below("/v1/chat") {
        Family::OpenAiChat
    } else if is_below("/v1/responses") || is_below("/v1/conversations") {
        Family::OpenAiResponses
    } else if is_passed_through(path) {
        Family::OpenAiChat
    } else if headers.contains_key("anthropic-version") || headers.contains_key("x-api-key") {
        Family::Anthropic
    } else {
        Family::OpenAiChat
    }
}

/// Whether a path exists only in OpenAI's API.
fn is_passed_through(path: &str) -> bool {
    let is_route = |(info, route): &(RouteInfo, NewRoute)| {
        info.path == path && matches!(route(""), Route::PassThrough(_) | Route::PassFormThrough(_))
    };
    ROUTES.iter().any(is_route)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(method: Method, path: &str) -> String {
        find(&method, path).expect_err("no such path").error.message
    }

    #[test]
    fn paths_are_compared_exactly() {
        assert_eq!(
            find(&Method::POST, "/v1/messages").expect("a path"),
            (Route::Complete(Family::Anthropic), false)
        );
        let model = Route::Model("openai/gpt-x".to_owned());
        assert_eq!(find(&Method::GET, "/v1/models/openai%2Fgpt-x").expect("a path"), (model.clone(), false));
        assert_eq!(find(&Method::HEAD, "/v1/models/openai/gpt-x").expect("a path"), (model, false));
        for path in
            ["//v1/models", "/V1/models", "/v1/./models", "/v1/models;x", "/v1/%6dodels", "/healthz/", "/"]
        {
            assert_eq!(
                find(&Method::GET, path).expect_err("no such path").error.kind,
                ErrorKind::NotFound,
                "{path}"
            );
        }
        assert_eq!(
            find(&Method::POST, "/v1/images/edits").expect("a path"),
            (Route::PassFormThrough("images/edits"), false)
        );
        assert_eq!(family_of("/v1/images/edits", &HeaderMap::new()), Family::OpenAiChat);
        let failure = find(&Method::GET, "/v1/messages").expect_err("a wrong method");
        assert_eq!(failure.allow.as_deref(), Some("POST"));
        let allowed = |method: Method, path: &str| find(&method, path).expect_err("a wrong method").allow;
        assert_eq!(allowed(Method::DELETE, "/v1/models/x").as_deref(), Some("GET"));
        assert_eq!(allowed(Method::PUT, "/v1/responses/resp_1").as_deref(), Some("GET, DELETE"));
        assert_eq!(allowed(Method::DELETE, "/v1/responses/resp_1/input_items").as_deref(), Some("GET"));
        assert_eq!(allowed(Method::GET, "/v1/responses/input_tokens").as_deref(), Some("POST"));
    }

    #[test]
    fn an_id_in_a_path_has_no_slash() {
        let items = Route::InputItems("resp_1".to_owned());
        assert_eq!(find(&Method::GET, "/v1/responses/resp_1/input_items").expect("a path"), (items, false));
        assert_eq!(pattern("/v1/responses/resp_1/input_items"), "/v1/responses/{response}/input_items");
        assert_eq!(pattern("/v1/responses/resp_1"), "/v1/responses/{response}");
        let item = Route::Item("conv_1/items/msg_1".to_owned());
        assert_eq!(
            find(&Method::GET, "/v1/conversations/conv_1/items/msg_1").expect("a path"),
            (item, false)
        );
        for path in [
            "/v1/responses/",
            "/v1/responses//input_items",
            "/v1/responses/a/b",
            "/v1/conversations/a/items/b/c",
            "/v1/conversations//items/b",
            "/v1/responses/a/b/input_items",
        ] {
            assert_eq!(
                find(&Method::GET, path).expect_err("no such path").error.kind,
                ErrorKind::NotFound,
                "{path}"
            );
        }
    }

    #[test]
    fn the_message_explains_common_mistakes() {
        assert!(message(Method::POST, "/v1/v1/messages").contains("remove `/v1` from the base URL"));
        assert!(message(Method::POST, "/v1/messages/").contains("remove the `/`"));
        assert!(message(Method::POST, "/chat/completions").contains("add `/v1` to the base URL"));
        assert_eq!(message(Method::GET, "/x"), "unknown path `/x`");
    }
}
