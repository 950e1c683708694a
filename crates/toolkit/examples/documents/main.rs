//! A server for documents in folders: explicit actions, instructions and modes.
//!
//! `cargo run -p toolwire-toolkit --example documents` serves it on standard input and output, as any MCP host starts it:
//! `{"mcpServers": {"documents": {"command": "target/debug/examples/documents"}}}`.
//!
//! Looking is free. Writing works only once the agent has been told to implement, and what cannot be undone needs the user's word.

mod store;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwire_toolkit::{
    BuildError, Context, Failure, Instruction, Mode, OrFailure, Outcome, Server, serve_stdio, tool,
};

use store::Store;

/// A document, as the tools show it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Document {
    title: String,
    text: String,
    status: Status,
    version: u32,
}

/// How far a document is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// Still being written
    #[default]
    Draft,
    /// Agreed on
    Final,
}

#[derive(Deserialize, JsonSchema)]
struct CreateDocument {
    /// What it is called; no two documents share a title
    #[schemars(length(min = 1, max = 80))]
    title: String,
    /// What it says, in Markdown
    text: String,
    /// How far it is
    #[serde(default)]
    status: Status,
}

/// List the titles of all documents.
#[tool(read_only)]
async fn list_documents(
    /// Only those of this status
    status: Option<Status>,
    cx: &Context,
) -> Outcome<Vec<String>> {
    let titles = store(cx)?.titles(status);
    if titles.is_empty() {
        return Outcome::ok(titles).with_instruction(Instruction::suggest("a first document"));
    }
    Outcome::ok(titles)
}

/// Read one document.
#[tool(read_only)]
async fn read_document(
    /// Its title
    title: String,
    cx: &Context,
) -> Outcome<Document> {
    let document =
        store(cx)?.find(&title).or_failure("not_found", format!("there is no document `{title}`"))?;
    Outcome::ok(document)
}

/// Propose an outline for a document, without writing anything.
#[tool(read_only)]
async fn plan_document(
    /// What it should be about
    subject: String,
) -> Outcome<Vec<String>> {
    let outline = ["Why", "What", "How", "Open questions"].map(|part| format!("{part}: {subject}"));
    Outcome::ok(outline.to_vec())
        .with_message("An outline, to be agreed on before anything is written.")
        .with_instruction(Instruction::switch_to(Mode::Planning).then(Instruction::present_and_stop()))
}

/// Create a managed document.
#[tool(explicit = "CREATE_DOCUMENT", destructive = false)]
async fn create_document(args: CreateDocument, cx: &Context) -> Outcome<Document> {
    let document = Document { title: args.title, text: args.text, status: args.status, version: 1 };
    if !store(cx)?.add(document.clone()) {
        return Outcome::failure(
            "already_exists",
            format!("there is a document `{}` already", document.title),
        )
        .with_instruction(Instruction::ask_for("another title"));
    }
    let message = format!("`{}` was created.", document.title);
    Outcome::ok(document).with_message(message).with_instruction(Instruction::switch_to(Mode::Review))
}

/// Replace the text of a document that is still a draft.
#[tool(explicit = "UPDATE_DOCUMENT", idempotent)]
async fn update_document(
    /// Its title
    title: String,
    /// The version that was read: a newer one is not overwritten
    version: u32,
    /// What it says from now on, in Markdown
    text: String,
    cx: &Context,
) -> Outcome<Document> {
    let updated = store(cx)?.change(&title, |document| {
        if document.status == Status::Final {
            return Err(Failure::new("final", "a final document is not changed")
                .with_instruction(Instruction::no_changes()));
        }
        if document.version != version {
            return Err(Failure::new("conflict", "the document was changed meanwhile")
                .with_data("version", document.version)
                .with_instruction(Instruction::retry_with("the version that `read_document` gives")));
        }
        document.text = text;
        document.version += 1;
        Ok(document.clone())
    });
    Outcome::ok(updated.or_failure("not_found", format!("there is no document `{title}`"))??)
}

/// Delete a document for good.
#[tool(explicit = "DELETE_DOCUMENT")]
async fn delete_document(
    /// Its title
    title: String,
    cx: &Context,
) -> Outcome<()> {
    store(cx)?.remove(&title).or_failure("not_found", format!("there is no document `{title}`"))?;
    Outcome::ok(())
        .with_message(format!("`{title}` is gone."))
        .with_instruction(Instruction::present_and_stop())
}

fn store(cx: &Context) -> Result<&Store, Failure> {
    cx.state::<Store>().or_failure("internal_error", "there is no store")
}

fn server() -> Result<Server, BuildError> {
    Server::builder("documents")
        .version(env!("CARGO_PKG_VERSION"))
        .instructions("Documents with titles. Plan first, write when the user agreed, and ask before anything is deleted.")
        .state(Store::default())
        .tool(list_documents)
        .tool(read_document)
        .tool(plan_document)
        .tool(create_document)
        .tool(update_document)
        .tool(delete_document)
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    serve_stdio(server()?)?.finished().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolwire_toolkit::lint;

    use super::*;

    async fn say(server: &Server, tool: &str, arguments: Value) -> Value {
        let context = Context::alone();
        let name =
            &server.registered().iter().find(|each| each.plain_name == tool).expect("it is a tool").tool.name;
        let result = server.call(name, arguments.as_object().cloned(), &context).await;
        result.expect("the tool can be asked").structured_content.expect("an outcome is structured")
    }

    #[test]
    fn every_tool_and_argument_is_described() {
        assert_eq!(lint(&server().expect("the tools make a server")), []);
    }

    #[tokio::test]
    async fn a_document_lives_and_dies_by_the_users_word() {
        let server = server().expect("the tools make a server");
        let plan = json!({"title": "Plan", "text": "First."});
        assert_eq!(say(&server, "create_document", plan).await["error_type"], "explicit_action_required");
        let plan = json!({"title": "Plan", "text": "First.", "explicit_action": "CREATE_DOCUMENT"});
        assert_eq!(say(&server, "create_document", plan.clone()).await["value"]["version"], 1);
        assert_eq!(say(&server, "create_document", plan).await["error_type"], "already_exists");

        let update = |version: u32| json!({"title": "Plan", "version": version, "text": "Second.", "explicit_action": "UPDATE_DOCUMENT"});
        assert_eq!(say(&server, "update_document", update(7)).await["data"], json!({"version": 1}));
        assert_eq!(say(&server, "update_document", update(1)).await["value"]["version"], 2);
        assert_eq!(
            say(&server, "list_documents", json!({"status": "draft"})).await["value"],
            json!(["Plan"])
        );

        let gone = json!({"title": "Plan", "explicit_action": "DELETE_DOCUMENT"});
        assert_eq!(say(&server, "delete_document", gone.clone()).await["message"], "`Plan` is gone.");
        assert_eq!(say(&server, "delete_document", gone).await["error_type"], "not_found");
        assert_eq!(say(&server, "read_document", json!({"title": "Plan"})).await["error_type"], "not_found");
    }
}
