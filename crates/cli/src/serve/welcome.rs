//! The lines that `toolwire serve` prints when it listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::{Value, json};
use toolwire_contract::text::shell_word;
use toolwire_llm::Demo;

use super::KEY_VARIABLE;
use crate::command_error::{HINT, NOTE, print_stderr};
use crate::servers::LoadedConfig;

/// Prints the address of the APIs and of the page, and an example command for each kind of client.
pub(super) fn print_welcome(
    loaded: &LoadedConfig,
    scheme: &str,
    local: SocketAddr,
    model: &str,
    needs_key: bool,
    admin_token: Option<&str>,
) {
    if loaded.is_demo() || model == Demo::NAME {
        let what = match (loaded.is_demo(), model == Demo::NAME) {
            (true, true) => "the demo server and `demo`, which is not a language model",
            (true, false) => "the demo server, because no servers are configured",
            _ => "`demo`, which is not a language model",
        };
        print_stderr(&format!("{NOTE}note:{NOTE:#} using {what}\n"));
        if model == Demo::NAME {
            print_stderr(&format!(
                "{HINT}hint:{HINT:#} set a key such as ANTHROPIC_API_KEY to use a language model\n"
            ));
        }
    }
    // Clients cannot connect to `0.0.0.0`.
    let host = match local.ip() {
        ip if !ip.is_unspecified() => local,
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, local.port())),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, local.port())),
    };
    let name = Value::from(model);
    let question = "What is the weather in Paris?";
    let body = json!({"model": model, "messages": [{"role": "user", "content": question}]});
    let (authorization, import, api_key, token) = match needs_key {
        true => (
            format!(" -H \"authorization: Bearer ${KEY_VARIABLE}\""),
            "import os; ",
            format!("os.environ[\"{KEY_VARIABLE}\"]"),
            format!("\"${KEY_VARIABLE}\""),
        ),
        false => (String::new(), "", "\"none\"".to_owned(), "none".to_owned()),
    };
    let python = format!(
        "{import}from openai import OpenAI; print(OpenAI(base_url=\"{scheme}://{host}/v1\", api_key={api_key})\
         .responses.create(model={name}, input=\"{question}\").output_text)"
    );
    print_stderr(&format!(
        "listening on {scheme}://{local}\n\
         \x20 curl {scheme}://{host}/v1/chat/completions -H 'content-type: application/json'{authorization} \\\n\
         \x20   -d {}\n\
         \x20 python -c {}\n\
         \x20 ANTHROPIC_BASE_URL={scheme}://{host} ANTHROPIC_AUTH_TOKEN={token} claude --model {}\n",
        shell_word(&body.to_string()),
        shell_word(&python),
        shell_word(model)
    ));
    print_stderr(&format!("page: {scheme}://{host}/\n"));
    if let Some(token) = admin_token {
        // The fragment of an address is not sent to the server, so it appears in no log.
        print_stderr(&format!(
            "page as administrator, for one hour: {scheme}://{host}/sign-in#token={token}\n"
        ));
    }
}
