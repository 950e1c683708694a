//! The paths below `/v1/responses/{response}`.

use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn a_stored_response_is_returned_as_the_client_got_it() {
    let gateway = gateway().await;
    for stream in [false, true] {
        for question in ["say hi", "length", "client", "rounds"] {
            let tool = json!({"type": "function", "name": "get_weather", "parameters": {"type": "object"}});
            let fields = json!({"stream": stream, "tools": [tool], "metadata": {"a": "b"}});
            let response = create(&gateway, json!(question), fields).await;
            assert_eq!(response["store"], true);
            assert_eq!(get(&gateway, &path_of(&response)).await, (200, response), "{question}, {stream}");
        }
    }
}

#[tokio::test]
async fn a_removed_response_does_not_exist() {
    let gateway = gateway().await;
    let first = create(&gateway, json!("say one"), json!({})).await;
    let second = continued(&gateway, &first, json!("say two")).await;
    let deleted = json!({"id": id(&first), "object": "response", "deleted": true});
    assert_eq!(call(&gateway, "DELETE", &path_of(&first), None).await, (200, deleted));
    for (method, suffix) in [("GET", ""), ("DELETE", ""), ("GET", "/input_items")] {
        let path = format!("{}{suffix}", path_of(&first));
        let (status, error) = call(&gateway, method, &path, None).await;
        assert_eq!((status, &error["error"]["type"]), (404, &json!("invalid_request_error")), "{error}");
    }
    let (status, _) =
        post(&gateway, &json!({"model": MODEL, "input": "x", "previous_response_id": id(&first)})).await;
    assert_eq!(status, 400);
    // Later responses do not depend on it.
    let third = continued(&gateway, &second, json!("say three")).await;
    assert_eq!(text(&third), "three");
    let messages = last_messages(&gateway);
    assert!(messages.contains("say one") && messages.contains("say two"), "{messages}");
}

#[tokio::test]
async fn a_response_is_not_stored_if_the_client_says_so() {
    let gateway = gateway().await;
    for stream in [false, true] {
        let response = create(&gateway, json!("say hi"), json!({"store": false, "stream": stream})).await;
        assert_eq!(response["store"], false);
        assert_eq!(get(&gateway, &path_of(&response)).await.0, 404);
        let body = json!({"model": MODEL, "input": "x", "previous_response_id": id(&response)});
        assert_eq!(post(&gateway, &body).await.0, 400);
    }
    // A response that is not stored can continue one that is.
    let first = create(&gateway, json!("say one"), json!({})).await;
    let fields = json!({"store": false, "previous_response_id": id(&first)});
    let second = create(&gateway, json!("say two"), fields).await;
    assert!(last_messages(&gateway).contains("say one"));
    assert_eq!(get(&gateway, &path_of(&second)).await.0, 404);
}

#[tokio::test]
async fn the_input_has_pages() {
    let gateway = gateway().await;
    let input = json!([
        {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
        {"type": "message", "id": "msg_own", "role": "user", "content": [{"type": "input_text", "text": "say three"}]},
    ]);
    let first = create(&gateway, input, json!({})).await;
    let second = continued(&gateway, &first, json!("say four")).await;
    let list = async |query: &str| {
        let (status, list) = get(&gateway, &format!("{}/input_items{query}", path_of(&second))).await;
        assert_eq!((status, &list["object"]), (200, &json!("list")), "{list}");
        list
    };
    let texts = |list: &Value| {
        let items = list["data"].as_array().unwrap().iter();
        items.map(|item| item["content"][0]["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = list("?order=asc&limit=100").await;
    assert_eq!(texts(&all), ["one", "two", "say three", "three", "say four"]);
    assert_eq!((&all["has_more"], types(&all["data"])), (&json!(false), vec!["message"; 5]));
    assert_eq!(all["data"][2]["id"], "msg_own");
    assert_eq!(all["data"][3]["id"], first["output"][0]["id"]);
    assert_eq!((&all["first_id"], &all["last_id"]), (&all["data"][0]["id"], &all["data"][4]["id"]));
    let ids: std::collections::BTreeSet<String> =
        all["data"].as_array().unwrap().iter().map(|item| item["id"].to_string()).collect();
    assert_eq!(ids.len(), 5, "each item has its own id: {ids:?}");

    let newest = list("?limit=2").await;
    assert_eq!(
        (texts(&newest), &newest["has_more"]),
        (vec!["say four".to_owned(), "three".to_owned()], &json!(true))
    );
    let mut after = newest["last_id"].clone();
    let mut rest = Vec::new();
    loop {
        let page = list(&format!("?limit=2&after={}", after.as_str().unwrap())).await;
        rest.extend(texts(&page));
        after = page["last_id"].clone();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(rest, ["say three", "two", "one"]);
    assert_eq!(list(&format!("?after={}", after.as_str().unwrap())).await["data"], json!([]));

    for (query, parameter) in [("?limit=0", "limit"), ("?order=up", "order"), ("?after=msg_x", "after")] {
        let (status, error) = get(&gateway, &format!("{}/input_items{query}", path_of(&second))).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(parameter)), "{error}");
    }
    // The items of the first response are its own.
    let (_, list) = get(&gateway, &format!("{}/input_items", path_of(&first))).await;
    assert_eq!(list["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_response_in_the_foreground_has_no_events_to_read() {
    let gateway = gateway().await;
    let response = create(&gateway, json!("say hi"), json!({})).await;
    let (status, error) = get(&gateway, &format!("{}?stream=true", path_of(&response))).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("stream")), "{error}");
    let path = format!("{}?include[]=message.output_text.logprobs&stream=false", path_of(&response));
    assert_eq!(get(&gateway, &path).await.0, 200);
}
