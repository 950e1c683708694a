//! Registration without globals: a tool exists only in the server that registered it.

use serde_json::json;
use toolwire_toolkit::{Context, Server, tool};

use crate::support::{list, outcome_of, plain, runtime, try_call};

struct Place(&'static str);

/// Say where this is.
#[tool]
async fn place(cx: &Context) -> Option<String> {
    Some(cx.state::<Place>()?.0.to_owned())
}

/// Exist only in one server.
#[tool]
async fn special() {}

fn server(name: &str) -> toolwire_toolkit::ServerBuilder {
    Server::builder(name).environment::<&str, &str>([])
}

#[test]
fn two_servers_in_one_process_do_not_see_each_other() {
    let here = server("here").state(Place("here")).tool(place).build().unwrap();
    let there = server("there").state(Place("there")).tool(place).tool(special).build().unwrap();
    let nowhere = server("nowhere").tool(place).build().unwrap();
    let names = |server: &Server| list(server).into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert_eq!(names(&here), ["here_place"]);
    assert_eq!(names(&there), ["there_place", "there_special"]);
    assert_eq!(outcome_of(&here, "here_place", json!({})), json!({"success": true, "value": "here"}));
    assert_eq!(outcome_of(&there, "there_place", json!({})), json!({"success": true, "value": "there"}));
    assert_eq!(outcome_of(&nowhere, "nowhere_place", json!({})), json!({"success": true}));
    assert!(try_call(&here, "there_special", json!({})).is_err());
    assert!(try_call(&here, "here_special", json!({})).is_err());
}

#[test]
fn a_server_lists_its_registered_tools() {
    let server = server("here").state(Place("here")).tool(place).tool(special).build().unwrap();
    let listed: Vec<(&str, &str)> = server
        .registered()
        .iter()
        .map(|each| {
            assert_eq!(each.tool.input_schema.as_ref().unwrap()["type"], "object");
            (each.plain_name.as_str(), each.tool.name.as_str())
        })
        .collect();
    assert_eq!(listed, [("place", "here_place"), ("special", "here_special")]);
    // The handler has access to the state of the server.
    let context = Context::alone();
    let result = runtime().block_on(server.registered()[0].handler.run(serde_json::Map::new(), &context));
    assert_eq!(result.structured_content, Some(json!({"success": true, "value": "here"})));
}

/// A module and a variable may have the name of a tool.
mod greet {
    /// Say hello.
    #[toolwire_toolkit::tool]
    pub(crate) async fn greet() -> String {
        "hello".to_owned()
    }
}
use greet::greet;

#[test]
fn the_name_of_a_tool_can_be_used_for_other_items() {
    let server = plain().tool(greet).build().unwrap();
    let greet = outcome_of(&server, "greet", json!({}));
    assert_eq!(greet["value"], "hello");
    // The value that the generated function returns is a tool as well.
    assert_eq!(list(&plain().tool(greet::greet()).build().unwrap()), list(&server));
}
