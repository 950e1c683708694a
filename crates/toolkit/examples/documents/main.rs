//! A server for documents: explicit actions, instructions and modes.
//!
//! `cargo run -p toolwire-toolkit --example documents` serves it on standard input and output. An MCP host
//! starts it with `{"mcpServers": {"documents": {"command": "target/debug/examples/documents"}}}`.
//!
//! Reading needs no consent. Creating, updating and deleting documents require an explicit request of the
//! user.

mod store;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwire_toolkit::transport::serve_stdio;
use toolwire_toolkit::{BuildError, Context, Failure, Instruction, Mode, OrFailure, Outcome, Server, tool};

use store::Store;

/// A document, as the tools return it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Document {
    title: String,
    text: String,
    status: Status,
    version: u32,
}

/// The status of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// Still being written
    #[default]
    Draft,
    /// Approved
    Final,
}

#[derive(Deserialize, JsonSchema)]
struct CreateDocument {
    /// The title, which must be unique
    #[schemars(length(min = 1, max = 80))]
    title: String,
    /// The text, in Markdown
    text: String,
    /// The status
    #[serde(default)]
    status: Status,
}

/// List the titles of all documents.
#[tool(read_only)]
async fn list_documents(
    /// Only documents with this status
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
    /// The subject
    subject: String,
) -> Outcome<Vec<String>> {
    let outline = ["Why", "What", "How", "Open questions"].map(|part| format!("{part}: {subject}"));
    Outcome::ok(outline.to_vec())
        .with_message("An outline, to be approved before anything is written.")
        .with_instruction(Instruction::switch_to(Mode::Planning).then(Instruction::present_and_stop()))
}

/// Create a managed document.
#[tool(explicit = "CREATE_DOCUMENT", destructive = false)]
async fn create_document(args: CreateDocument, cx: &Context) -> Outcome<Document> {
    let document = Document { title: args.title, text: args.text, status: args.status, version: 1 };
    if !store(cx)?.add(document.clone()) {
        return Outcome::failure(
            "already_exists",
            format!("the document `{}` already exists", document.title),
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
    /// The version that was read; a newer one is not overwritten
    version: u32,
    /// The new text, in Markdown
    text: String,
    cx: &Context,
) -> Outcome<Document> {
    let updated = store(cx)?.change(&title, |document| {
        if document.status == Status::Final {
            return Err(Failure::new("final", "a final document cannot be changed")
                .with_instruction(Instruction::no_changes()));
        }
        if document.version != version {
            return Err(Failure::new("conflict", "the document was changed in the meantime")
                .with_data("version", document.version)
                .with_instruction(Instruction::retry_with("the version that `read_document` returns")));
        }
        document.text = text;
        document.version += 1;
        Ok(document.clone())
    });
    Outcome::ok(updated.or_failure("not_found", format!("there is no document `{title}`"))??)
}

/// Delete a document permanently.
#[tool(explicit = "DELETE_DOCUMENT")]
async fn delete_document(
    /// Its title
    title: String,
    cx: &Context,
) -> Outcome<()> {
    store(cx)?.remove(&title).or_failure("not_found", format!("there is no document `{title}`"))?;
    Outcome::ok(())
        .with_message(format!("`{title}` was deleted."))
        .with_instruction(Instruction::present_and_stop())
}

fn store(cx: &Context) -> Result<&Store, Failure> {
    cx.state::<Store>().or_failure("internal_error", "the store is missing")
}

fn server() -> Result<Server, BuildError> {
    Server::builder("documents")
        .version(env!("CARGO_PKG_VERSION"))
        .instructions("Documents with titles. Plan first, write after the user agreed, and ask before anything is deleted.")
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
    use toolwire_toolkit::lint::lint;

    use super::*;

    async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
        let context = Context::alone();
        let name = &server
            .registered()
            .iter()
            .find(|each| each.plain_name == tool)
            .expect("a registered tool")
            .tool
            .name;
        let result = server.call(name, arguments.as_object().cloned(), &context).await;
        result.expect("a result").structured_content.expect("structured content")
    }

    #[test]
    fn every_tool_and_argument_is_described() {
        assert_eq!(lint(&server().expect("a valid server")), []);
    }

    #[tokio::test]
    async fn documents_change_only_with_consent() {
        let server = server().expect("a valid server");
        let plan = json!({"title": "Plan", "text": "First."});
        assert_eq!(call(&server, "create_document", plan).await["error_type"], "explicit_action_required");
        let plan = json!({"title": "Plan", "text": "First.", "explicit_action": "CREATE_DOCUMENT"});
        assert_eq!(call(&server, "create_document", plan.clone()).await["value"]["version"], 1);
        assert_eq!(call(&server, "create_document", plan).await["error_type"], "already_exists");

        let update = |version: u32| json!({"title": "Plan", "version": version, "text": "Second.", "explicit_action": "UPDATE_DOCUMENT"});
        assert_eq!(call(&server, "update_document", update(7)).await["data"], json!({"version": 1}));
        assert_eq!(call(&server, "update_document", update(1)).await["value"]["version"], 2);
        assert_eq!(
            call(&server, "list_documents", json!({"status": "draft"})).await["value"],
            json!(["Plan"])
        );

        let delete = json!({"title": "Plan", "explicit_action": "DELETE_DOCUMENT"});
        assert_eq!(call(&server, "delete_document", delete.clone()).await["message"], "`Plan` was deleted.");
        assert_eq!(call(&server, "delete_document", delete).await["error_type"], "not_found");
        assert_eq!(call(&server, "read_document", json!({"title": "Plan"})).await["error_type"], "not_found");
    }
}
