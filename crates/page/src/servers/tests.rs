use std::time::{Duration, UNIX_EPOCH};

use scraper::{Html, Selector};

use super::*;

fn server(name: &str, state: ServerState) -> Server {
    Server {
        name: name.to_owned(),
        transport: "stdio".to_owned(),
        address: "uvx".to_owned(),
        state,
        since: UNIX_EPOCH,
        description: None,
        tools: Vec::new(),
        withheld: Vec::new(),
        notes: Vec::new(),
        restarts: 0,
        calls: ServerCalls::default(),
        stderr: Vec::new(),
        changed: Vec::new(),
        is_editable: false,
    }
}

fn changed(places: Option<Vec<ChangedPlace>>) -> ChangedTool {
    ChangedTool {
        tool: "delete_file".to_owned(),
        fingerprint: "f1".to_owned(),
        is_blocked: false,
        parts: vec!["description".to_owned()],
        places,
        current_description: Some("Delete".to_owned()),
    }
}

fn document(servers: &[Server], may_change: bool) -> Html {
    Html::parse_document(&main(servers, may_change).into_string())
}

#[track_caller]
fn texts(document: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).expect("a valid selector");
    let text = |element: scraper::ElementRef<'_>| {
        // The parts of a row have a gap between them, but no space.
        let is_row = element.value().classes().any(|class| class == "row");
        let text = element.text().collect::<Vec<_>>().join(if is_row { " " } else { "" });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    document.select(&selector).map(text).collect()
}

#[test]
fn ids_are_valid_and_distinct() {
    assert_eq!(id("demo"), "server-demo");
    assert_eq!(id("a b\"<ü"), "server-a_20b_22_3c_c3_bc");
    assert_ne!(id("a_20b"), id("a b"));
}

#[test]
fn a_server_that_is_down_has_its_reason_hint_and_standard_error_in_view() {
    let problem = ServerProblem {
        reason: "command `uvx` not found".to_owned(),
        hint: Some("install uv".to_owned()),
        attempt: ConnectionAttempt::OnRequest,
    };
    let mut down = server("files2", ServerState::Down { problem });
    down.stderr = vec!["/bin/sh: 1: uvx: not found".to_owned()];
    let document = document(&[down], true);
    assert_eq!(texts(&document, ".error > span[dir]:not(.hint)"), ["command uvx not found"]);
    assert_eq!(texts(&document, ".error > .muted"), ["· not tried again"]);
    assert_eq!(texts(&document, ".error > .hint"), ["install uv"]);
    assert_eq!(texts(&document, "#server-files2-stderr"), ["/bin/sh: 1: uvx: not found"]);
    assert!(texts(&document, "details pre").is_empty(), "nothing is folded");
    assert_eq!(texts(&document, "form[action='/-/servers/files2/retry'] button"), ["Try now files2"]);
}

/// The focus stays on the button of a server although the button changes.
#[test]
fn the_action_has_the_same_id_in_each_state() {
    let problem = |attempt| ServerProblem { reason: "it ended".to_owned(), hint: None, attempt };
    let page = Link::external("https://login.example/authorize");
    for (state, label) in [
        (ServerState::Ready, "Restart demo"),
        (ServerState::Connecting { detail: String::new() }, "Trying demo"),
        (ServerState::Recovering { problem: problem(ConnectionAttempt::At(UNIX_EPOCH)) }, "Try now demo"),
        (ServerState::Recovering { problem: problem(ConnectionAttempt::Running) }, "Trying demo"),
        (ServerState::Down { problem: problem(ConnectionAttempt::OnRequest) }, "Try now demo"),
        (ServerState::SignIn { page: None, reason: String::new() }, "Sign in ↗ to demo"),
        (ServerState::SignIn { page, reason: String::new() }, "Sign in ↗ to demo"),
    ] {
        let document = document(&[server("demo", state)], true);
        assert_eq!(texts(&document, "#server-demo-head #server-demo-action[data-stays]"), [label]);
    }
}

#[test]
fn a_changed_definition_is_a_difference_with_marked_words() {
    let word = |text: &str, is_before, is_after| Words { text: text.to_owned(), is_before, is_after };
    let place = ChangedPlace {
        place: "description".to_owned(),
        words: vec![word("Delete ", true, true), word("one file", true, false), word("files", false, true)],
        has_before: true,
        has_after: true,
    };
    let mut files = server("files", ServerState::Ready);
    files.changed = vec![changed(Some(vec![place])), changed(None)];
    let document = document(&[files], true);
    assert_eq!(texts(&document, ".line.removed"), ["removed: Delete one file"]);
    assert_eq!(texts(&document, ".line.removed mark"), ["one file"]);
    assert_eq!(texts(&document, ".line.added"), ["added: Delete files", "Delete"]);
    assert_eq!(texts(&document, "form[action$='/accept'] button").len(), 2);
    let seen = Selector::parse("form[action$='/keep-off'] input[name=seen][value=f1]").expect("a selector");
    assert_eq!(document.select(&seen).count(), 2);
}

#[test]
fn controls_that_a_visitor_may_not_use_are_disabled_with_the_reason() {
    let mut files = server("files", ServerState::Ready);
    files.changed = vec![changed(None)];
    let page = Link::external("https://login.example/authorize?state=1");
    let web = server("web", ServerState::SignIn { page, reason: String::new() });
    for (may_change, enabled, disabled) in [(true, 3, 0), (false, 0, 4)] {
        let document = document(&[files.clone(), web.clone()], may_change);
        assert_eq!(texts(&document, "button[disabled][aria-describedby=needs-admin]").len(), disabled);
        assert_eq!(texts(&document, "form button:not([disabled])").len(), enabled);
        assert_eq!(texts(&document, "#needs-admin").len(), usize::from(!may_change));
        let link = texts(&document, "a[href='/servers/web/sign-in'][rel~=noopener]");
        assert_eq!(link.len(), usize::from(may_change));
    }
}

#[test]
fn facts_and_times_are_displayed() {
    let mut demo = server("demo", ServerState::Ready);
    demo.description = Some(ServerDescription {
        protocol: "2026-07-28".to_owned(),
        program: Some("demo-server 0.1.0".to_owned()),
        instructions: None,
    });
    demo.calls = ServerCalls {
        answered: 7,
        failed: 0,
        p50: Some(Duration::from_millis(12)),
        p99: Some(Duration::from_millis(40)),
    };
    let document = document(&[demo], true);
    assert_eq!(
        texts(&document, "#server-demo-head"),
        ["✓ ready 2026-07-28 stdio 0 tools call p50 12 ms, p99 40 ms Restart demo"]
    );
    assert_eq!(
        texts(&document, "#server-demo-facts > p"),
        ["demo-server 0.1.0 · up · 0 restarts · 7 calls answered · uvx"]
    );
}

/// The page changes part by part, so each part must be an element of the page with that id.
#[test]
fn each_part_is_an_element_of_the_page() {
    let servers = [server("a b", ServerState::Ready), server("c", ServerState::Disabled)];
    let whole = list(&servers, None).into_string() + &main(&servers, true).into_string();
    for part in servers.iter().flat_map(|server| parts(server, true)) {
        assert!(part.html.clone().into_string().contains(&format!("id=\"{}\"", part.id)), "{}", part.id);
        assert!(whole.contains(&part.html.into_string()), "{}", part.id);
    }
}

#[test]
fn the_form_keeps_what_was_typed_and_shows_the_check() {
    let draft = form::Draft {
        name: "a\"b".to_owned(),
        command: "uvx".to_owned(),
        arguments: "\n--x\n<y>".to_owned(),
        ..form::Draft::default()
    };
    let target = form::ConfigFile { path: "mcp.json".to_owned(), by_hand: None };
    let problem = form::FormResponse::Problem { message: "wrong", hint: Some("better") };
    let text = form::form(&draft, &target, true, Some(problem)).into_string();
    let document = Html::parse_document(&text);
    let value = |selector: &str| {
        let selector = Selector::parse(selector).expect("a selector");
        document.select(&selector).next().and_then(|field| field.attr("value")).map(str::to_owned)
    };
    assert_eq!(value("input[name=name]").as_deref(), Some("a\"b"));
    let area = Selector::parse("textarea[name=arguments]").expect("a selector");
    let typed: String = document.select(&area).flat_map(|area| area.text()).collect();
    assert_eq!(typed, draft.arguments);
    assert_eq!(texts(&document, "[role=alert]"), ["wrongbetter"]);
    assert!(texts(&document, "button[disabled]").is_empty());
    let outcome = form::CheckOutcome::Started {
        after: Duration::from_millis(800),
        protocol: "2025-11-25".to_owned(),
        program: None,
        tools: vec!["one".to_owned(), "two".to_owned()],
        refused: Vec::new(),
        unusable: Vec::new(),
    };
    let checked = form::checked(&draft, &form::ServerCheck { outcome, entry: "{}".to_owned() });
    let document = Html::parse_document(&checked.into_string());
    assert_eq!(texts(&document, "p")[0], "✓ starts in 0.8 s · 2025-11-25 · 2 tools, all convert");
    let user = Html::parse_document(&form::form(&draft, &target, false, None).into_string());
    assert_eq!(texts(&user, "button[disabled]").len(), 3);
    let by_hand = form::ConfigFile { path: "a.yaml".to_owned(), by_hand: Some("comments".to_owned()) };
    let document = Html::parse_document(&form::form(&draft, &by_hand, true, None).into_string());
    assert_eq!(texts(&document, "form button"), ["Start and check", "Show the lines to change"]);
    assert_eq!(texts(&document, ".note"), ["comments"]);
}

#[test]
fn texts_of_servers_are_never_markup() {
    for hostile in [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\" autofocus onfocus=\"alert(1)",
        "</pre></code></template></title><svg onload=alert(1)>",
        "javascript:alert(1)",
        "\u{202E}\u{0}\u{1B}[31m",
    ] {
        let problem = ServerProblem {
            reason: hostile.to_owned(),
            hint: Some(hostile.to_owned()),
            attempt: ConnectionAttempt::Running,
        };
        let mut down = server(hostile, ServerState::Down { problem });
        down.stderr = vec![hostile.to_owned()];
        down.notes = vec![hostile.to_owned()];
        down.address = hostile.to_owned();
        down.description = Some(ServerDescription {
            protocol: hostile.to_owned(),
            program: Some(hostile.to_owned()),
            instructions: Some(hostile.to_owned()),
        });
        down.tools = vec![ListedTool {
            name: hostile.to_owned(),
            original: Some(hostile.to_owned()),
            description: Some(hostile.to_owned()),
        }];
        down.withheld = vec![WithheldTool { name: hostile.to_owned(), reason: hostile.to_owned() }];
        down.changed = vec![ChangedTool { tool: hostile.to_owned(), ..changed(None) }];
        let text = list(std::slice::from_ref(&down), None).into_string() + &detail(&down, true).into_string();
        let document = Html::parse_fragment(&text);
        for selector in ["script", "img", "svg", "[onerror]", "[onload]", "[onfocus]", "[autofocus]"] {
            assert!(texts(&document, selector).is_empty(), "{selector}: {text}");
        }
        let links = Selector::parse("[href]").expect("a selector");
        let mut links = document.select(&links).filter_map(|link| link.attr("href"));
        assert!(links.all(|link| link.starts_with('/')), "{text}");
        let visible: String = document.root_element().text().collect();
        assert!(!visible.contains(['\u{202E}', '\u{0}', '\u{1B}']), "{visible}");
    }
}
