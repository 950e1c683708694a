//! All paths of the APIs, with all methods and all ids.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolwire_gateway::Gateway;

use super::world::{Owned, Seen, Tenant, World, unknown, with_approval};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// How a path can refer to what somebody owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The path contains ids.
    Path,
    /// The body of a request contains ids.
    Body,
    /// The body is for the provider, which does not know the ids of the gateway.
    Provider,
    /// Nothing at the path belongs to anybody.
    Nothing,
    /// The tests in `mcp` cover it.
    Mcp,
}

/// The decision for each path of the gateway's table. A new path needs one here.
const DECISIONS: [(&str, Reach); 31] = [
    ("/v1/chat/completions", Reach::Body),
    ("/v1/responses", Reach::Body),
    ("/v1/messages", Reach::Body),
    ("/v1/messages/count_tokens", Reach::Body),
    ("/v1/responses/input_tokens", Reach::Body),
    ("/v1/responses/{response}/input_items", Reach::Path),
    ("/v1/responses/{response}", Reach::Path),
    ("/v1/responses/{response}/cancel", Reach::Path),
    ("/v1/conversations", Reach::Body),
    ("/v1/conversations/{conversation}", Reach::Path),
    ("/v1/conversations/{conversation}/items", Reach::Path),
    ("/v1/conversations/{conversation}/items/{item}", Reach::Path),
    ("/v1/models", Reach::Nothing),
    ("/v1/models/{model}", Reach::Path),
    ("/v1/embeddings", Reach::Provider),
    ("/v1/completions", Reach::Provider),
    ("/v1/moderations", Reach::Provider),
    ("/v1/images/generations", Reach::Provider),
    ("/v1/audio/speech", Reach::Provider),
    ("/v1/audio/transcriptions", Reach::Nothing),
    ("/v1/audio/translations", Reach::Nothing),
    ("/v1/images/edits", Reach::Nothing),
    ("/v1/images/variations", Reach::Nothing),
    ("/mcp", Reach::Mcp),
    ("/.well-known/oauth-protected-resource", Reach::Nothing),
    ("/.well-known/oauth-protected-resource/mcp", Reach::Nothing),
    ("/healthz", Reach::Nothing),
    ("/readyz", Reach::Nothing),
    ("/metrics", Reach::Nothing),
    // The page has a table of its own.
    ("/{page}", Reach::Nothing),
    // Unknown paths.
    ("/v1/files/{file}", Reach::Path),
];

#[test]
fn each_path_has_a_decision() {
    let decided: BTreeSet<&str> = DECISIONS.iter().map(|(path, _)| *path).collect();
    let paths: BTreeSet<&str> = Gateway::routes().map(|route| route.path).collect();
    let missing: Vec<_> = paths.difference(&decided).collect();
    assert!(missing.is_empty(), "decide how tenants could reach each other at {missing:?}");
    let others: Vec<_> = decided.difference(&paths).collect();
    assert_eq!(others, [&"/v1/files/{file}", &"/{page}"]);
    for (path, reach) in DECISIONS {
        assert!(reach == Reach::Path || !path.contains('{') || path == "/{page}", "{path} contains an id");
    }
}

/// Returns the path with an id in the place of each name in braces, once for each place: the other places get
/// another id.
fn paths(pattern: &str, id: &str, other: &str) -> Vec<String> {
    let escaped: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
    let parts: Vec<&str> = pattern.split('/').collect();
    let places: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].starts_with('{')).collect();
    let path = |place: usize| {
        let part = |(at, part): (usize, &&str)| match part.starts_with('{') {
            true if at == place => escaped.clone(),
            true => other.to_owned(),
            false => (*part).to_owned(),
        };
        parts.iter().enumerate().map(part).collect::<Vec<String>>().join("/")
    };
    places.into_iter().map(path).collect()
}

/// Returns bodies that refer to an id in each way that an API knows.
fn references(id: &str) -> Vec<Value> {
    let hi = json!({"role": "user", "content": "say hi"});
    let with = |more: Value| {
        let mut body = json!({"model": "up", "input": [hi], "messages": [hi], "max_tokens": 10});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let approval = json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": true});
    let output = json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let reference = json!({"type": "item_reference", "id": id});
    vec![
        with(json!({"previous_response_id": id})),
        with(json!({"previous_response_id": id, "background": true})),
        with(json!({"conversation": id})),
        with(json!({"conversation": {"id": id}, "store": false})),
        with(json!({"input": [reference, hi]})),
        with(json!({"input": [approval], "tools": with_approval()})),
        with(json!({"input": [approval], "tools": with_approval(), "previous_response_id": id})),
        with(json!({"input": [output]})),
        json!({"items": [reference]}),
        with(json!({"messages": [{"role": "tool", "tool_call_id": id, "content": "x"}]})),
    ]
}

/// For an id of another tenant, a tenant must get the same response as for an unknown id.
async fn compare(world: &World, attacker: &Tenant, victim: &Tenant, what: &str, attempt: Attempt<'_>) {
    let Attempt { method, id, request } = attempt;
    let other = unknown(id);
    let [found, missing] = [id, other.as_str()].map(|id| {
        let (path, body) = request(id);
        async move { (world.send(attacker, method, &path, body.as_ref()).await, path) }
    });
    let ((found, path), (missing, _)) = (found.await, missing.await);
    assert!(!found.body.contains(&victim.secret), "{method} {path} ({what}): {}", found.body);
    let expected: Seen = missing.about(&other);
    assert_eq!(found.about(id), expected, "{method} {path} ({what})");
}

/// A request that contains an id.
struct Attempt<'a> {
    method: &'a str,
    id: &'a str,
    request: &'a dyn Fn(&str) -> (String, Option<Value>),
}

async fn attack(world: &World, attacker: &Tenant, own: &Owned, victim: &Tenant, owned: &Owned) {
    let injected = json!({"type": "message", "role": "user", "content": "injected"});
    let change = json!({"metadata": {"note": "injected"}, "items": [injected]});
    for (what, id) in owned.ids() {
        for (pattern, reach) in DECISIONS {
            match reach {
                Reach::Path => {
                    // The attacker's own conversation must not lead to an item of somebody else.
                    let own_id = own.ids().into_iter().find(|(what, _)| *what == "conversation").unwrap().1;
                    for method in METHODS {
                        let body = ["POST", "PUT", "PATCH"].contains(&method).then(|| change.clone());
                        for place in 0..paths(pattern, id, own_id).len() {
                            let path = |id: &str| paths(pattern, id, own_id)[place].clone();
                            let request = |id: &str| (path(id), body.clone());
                            compare(world, attacker, victim, what, Attempt { method, id, request: &request })
                                .await;
                            let query = "?stream=true&starting_after=0&limit=100&include[]=x";
                            let request = |id: &str| (format!("{}{query}", path(id)), None);
                            if method == "GET" {
                                compare(
                                    world,
                                    attacker,
                                    victim,
                                    what,
                                    Attempt { method, id, request: &request },
                                )
                                .await;
                            }
                        }
                    }
                }
                Reach::Body | Reach::Provider => {
                    let count = if reach == Reach::Body { references(id).len() } else { 1 };
                    for number in 0..count {
                        let request = |id: &str| (pattern.to_owned(), Some(references(id)[number].clone()));
                        compare(
                            world,
                            attacker,
                            victim,
                            what,
                            Attempt { method: "POST", id, request: &request },
                        )
                        .await;
                    }
                }
                Reach::Nothing | Reach::Mcp => {}
            }
        }
    }
}

/// Whatever one tenant sends with the ids of another one, it learns nothing and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn ids_of_others_do_not_exist() {
    let world = World::start("tenants-api").await;
    let mut owned = Vec::new();
    for tenant in &world.tenants {
        owned.push(world.populate(tenant).await);
    }
    for (attacker, victim) in world.attacks() {
        let (one, other) = (&world.tenants[attacker], &world.tenants[victim]);
        attack(&world, one, &owned[attacker], other, &owned[victim]).await;
    }
    // Lists and states contain nothing of anybody.
    for (pattern, reach) in DECISIONS {
        for tenant in world.tenants.iter().filter(|_| reach == Reach::Nothing) {
            for method in METHODS {
                let seen = world.send(tenant, method, &pattern.replace("{page}", "x"), None).await;
                for other in &world.tenants {
                    assert!(!seen.body.contains(&other.secret), "{method} {pattern}: {seen:?}");
                }
            }
        }
    }
    for (tenant, owned) in world.tenants.iter().zip(&owned) {
        world.verify(tenant, owned).await;
    }
}

/// Each call is in the audit log with the key that has made it, also if a token has the name of a key.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_names_who_has_made_each_call() {
    let world = World::start("tenants-audit").await;
    let mut expected = Vec::new();
    for tenant in &world.tenants {
        let owned = world.populate(tenant).await;
        world.verify(tenant, &owned).await;
        // The call of the page, and the one that was approved. The log has only the hash of very long
        // arguments.
        expected.push((tenant.secret.clone(), 2));
    }
    let calls = |event: &str, secret: &str| -> Vec<Value> {
        let about = |line: &Value| line["event"] == event && line["arguments"].to_string().contains(secret);
        world.audit().into_iter().filter(about).collect()
    };
    let mut keys = BTreeSet::new();
    for (tenant, (secret, count)) in world.tenants.iter().zip(&expected) {
        let (mut started, mut finished) = (Vec::new(), Vec::new());
        while finished.len() < *count {
            (started, finished) = (calls("call_started", secret), calls("call_finished", secret));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!((started.len(), finished.len()), (*count, *count), "{started:?} {finished:?}");
        let of: BTreeSet<String> =
            started.iter().chain(&finished).map(|line| line["key"].to_string()).collect();
        assert_eq!(of.len(), 1, "{of:?}");
        assert!(started.iter().all(|line| line["client"] == tenant.name), "{started:?}");
        keys.extend(of);
    }
    assert_eq!(keys.len(), world.tenants.len(), "a token is not the key with its name: {keys:?}");
    // No line is missing.
    let numbers: Vec<u64> = world.audit().iter().map(|line| line["sequence"].as_u64().unwrap()).collect();
    let complete: Vec<u64> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>(), complete.iter().collect::<BTreeSet<_>>());
}
