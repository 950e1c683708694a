//! All paths of the page, with the ids of others and without the rights of an administrator.

use std::collections::BTreeSet;

use toolwire_gateway::Gateway;
use toolwire_testkit::http_client;

use super::world::{BOSS, Owned, Seen, World, unknown};

/// Who may use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Conversations have no owner: with several keys, only an administrator sees them.
    Conversations,
    /// What is recorded belongs to a tenant.
    Own,
    /// It changes servers, or shows their settings.
    Admin,
    /// It is for programs of an administrator, with a key.
    AdminKey,
    /// It is the same for all tenants, or only about the session itself.
    All,
    /// A stream of events, which ends only with the connection.
    Stream,
}

/// The decision for each path of the page. A new path needs one here.
const DECISIONS: [(&str, Access); 52] = [
    ("/", Access::All),
    ("/chat/{chat}", Access::Conversations),
    ("/-/chat/send", Access::Conversations),
    ("/-/chat/{chat}/window", Access::Conversations),
    ("/-/chat/{chat}/messages/{position}/text", Access::Conversations),
    ("/-/chat/{chat}/calls/{call}/{part}", Access::Conversations),
    ("/-/chat/{chat}/send", Access::Conversations),
    ("/-/chat/{chat}/edit", Access::Conversations),
    ("/-/chat/{chat}/retry", Access::Conversations),
    ("/-/chat/{chat}/stop", Access::Conversations),
    ("/-/chat/{chat}/rename", Access::Conversations),
    ("/-/chat/{chat}/delete", Access::Conversations),
    ("/-/chat/{chat}/decide", Access::Conversations),
    ("/-/chat/{chat}/answer", Access::Conversations),
    ("/-/media/{chat}/{position}/{block}", Access::Conversations),
    ("/-/attachments", Access::Conversations),
    ("/-/pulse", Access::Conversations),
    ("/tools", Access::All),
    ("/tools/{tool}", Access::All),
    ("/-/tools/{tool}/call", Access::All),
    ("/-/tools/{tool}/calls/{call}/result", Access::Own),
    ("/-/tools/{tool}/calls/{call}/media/{position}", Access::Own),
    ("/dialects", Access::All),
    ("/dialects/try", Access::All),
    ("/dialects/{tool}", Access::All),
    ("/-/dialects/try", Access::All),
    ("/-/dialects/arguments", Access::All),
    ("/-/dialects/{tool}/arguments", Access::All),
    ("/servers", Access::All),
    ("/servers/new", Access::All),
    ("/servers/{server}", Access::All),
    ("/servers/{server}/edit", Access::Admin),
    ("/servers/{server}/remove", Access::Admin),
    ("/servers/{server}/sign-in", Access::Admin),
    ("/-/servers/check", Access::Admin),
    ("/-/servers/preview", Access::Admin),
    ("/-/servers/write", Access::Admin),
    ("/-/servers/{server}/{action}", Access::Admin),
    ("/traffic", Access::All),
    ("/traffic/{request}", Access::Own),
    ("/-/events", Access::Stream),
    ("/-/palette", Access::All),
    ("/-/theme", Access::All),
    ("/-/csp", Access::All),
    ("/-/sign-out", Access::All),
    ("/sign-in", Access::All),
    ("/-/login/{server}", Access::All),
    ("/-/logged-in", Access::All),
    ("/-/assets/{hash}/{file}", Access::All),
    ("/-/admin/pins", Access::AdminKey),
    ("/-/admin/pins/accept", Access::AdminKey),
    ("/-/admin/pins/keep-off", Access::AdminKey),
];

#[test]
fn each_path_has_a_decision() {
    let decided: BTreeSet<&str> = DECISIONS.iter().map(|(path, _)| *path).collect();
    let paths: BTreeSet<&str> = Gateway::page_paths().collect();
    let missing: Vec<_> = paths.symmetric_difference(&decided).collect();
    assert!(missing.is_empty(), "decide how tenants could reach each other at {missing:?}");
}

/// Returns a path with these values in place of its names.
fn filled(pattern: &str, id: &str) -> String {
    let part = |part: &str| match part {
        "{tool}" => "good_echo".to_owned(),
        "{server}" => "good".to_owned(),
        "{action}" => "restart".to_owned(),
        "{position}" | "{block}" => "0".to_owned(),
        "{part}" => "result".to_owned(),
        part if part.starts_with('{') => form_urlencoded::byte_serialize(id.as_bytes()).collect(),
        part => part.to_owned(),
    };
    pattern.split('/').map(part).collect::<Vec<String>>().join("/")
}

async fn seen(world: &World, cookie: &str, method: &str, path: &str) -> Seen {
    let request = world.page(cookie, method, path);
    Seen::of(match method {
        "POST" => World::form(request, &[("text", "injected"), ("title", "injected"), ("act", "check")]),
        _ => request,
    })
    .await
}

/// With a session of one tenant, the recorded calls and requests of others do not exist, and what belongs to
/// administrators is forbidden.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_own_does_not_exist_on_the_page() {
    let world = World::start("tenants-page").await;
    let mut owned: Vec<Owned> = Vec::new();
    for tenant in &world.tenants {
        owned.push(world.populate(tenant).await);
    }
    let chat = chat_of_administrator(&world).await;
    for (one, other) in world.attacks() {
        let (victim, victims, cookie) = (&world.tenants[other], &owned[other], &owned[one].cookie);
        let mut ids = victims.ids();
        ids.push(("chat", &chat));
        for (pattern, access) in DECISIONS {
            for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
                if access == Access::Stream || (pattern, method) == ("/-/sign-out", "POST") {
                    continue;
                }
                for (what, id) in &ids {
                    let (path, other_id) = (filled(pattern, id), unknown(id));
                    let found = seen(&world, cookie, method, &path).await;
                    assert!(!found.body.contains(&victim.secret), "{method} {path}: {}", found.body);
                    let is_refused = match access {
                        Access::Own => found.status == 404 || found.status == 405,
                        Access::Conversations | Access::Admin => [403, 405].contains(&found.status),
                        // The headers contain no key.
                        Access::AdminKey => found.status == 401,
                        Access::All | Access::Stream => true,
                    };
                    assert!(is_refused, "{method} {path} ({what}): {found:?}");
                    let missing = filled(pattern, &other_id);
                    if missing == path {
                        // The path contains no id of a tenant.
                        break;
                    }
                    let missing = seen(&world, cookie, method, &missing).await;
                    assert_eq!(found.about(id), missing.about(&other_id), "{method} {path} ({what})");
                }
            }
        }
        for topic in ["traffic", "servers.admin", &format!("chat.{chat}")] {
            let events = seen(&world, cookie, "GET", &format!("/-/events?topics={topic}")).await;
            assert_eq!(events.status, 403, "{topic}: {events:?}");
        }
        for path in ["/traffic.json", "/tools/good_echo", "/-/palette?q=@"] {
            let list = seen(&world, cookie, "GET", path).await;
            let is_known = |id: &&str| list.body.contains(*id);
            assert!(![victims.request.as_str(), &victims.call].iter().any(is_known), "{path}: {}", list.body);
        }
    }
    for (tenant, owned) in world.tenants.iter().zip(&owned) {
        world.verify(tenant, owned).await;
        let request = format!("/traffic/{}.json", owned.request);
        assert_eq!(seen(&world, &owned.cookie, "GET", &request).await.status, 200);
    }
    let administrator = world.sign_in(BOSS).await;
    assert_eq!(seen(&world, &administrator, "GET", &format!("/chat/{chat}")).await.status, 200);
}

/// Starts a chat as an administrator, and returns its id.
async fn chat_of_administrator(world: &World) -> String {
    let cookie = world.sign_in(BOSS).await;
    let fields = [("text", "say secret-text-of-the-administrator"), ("model", "up")];
    let sent = Seen::of(World::form(world.page(&cookie, "POST", "/-/chat/send"), &fields)).await;
    let location = sent.headers.get("location").unwrap_or_else(|| panic!("{sent:?}"));
    location.split(['/', '#', '?']).nth(2).unwrap().to_owned()
}

/// A key without the right is refused on the paths for programs of administrators.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_not_an_administrator() {
    let world = World::start("tenants-admin").await;
    for (path, access) in DECISIONS {
        for method in ["GET", "POST"].iter().filter(|_| access == Access::AdminKey) {
            for tenant in &world.tenants {
                let seen = world.send(tenant, method, path, None).await;
                assert_eq!(seen.status, 403, "{method} {path}: {seen:?}");
            }
        }
    }
    let pins = http_client().get(format!("{}/-/admin/pins", world.served.url)).bearer_auth(BOSS);
    assert_eq!(Seen::of(pins).await.status, 200);
}
