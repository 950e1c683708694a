//! Files that were uploaded and not sent yet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolwire_contract::Content;

use super::super::Context;
use super::super::events::Event;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::PageRequest;
use super::input::{self, Input};
use crate::ids::random_id;
use crate::principal::Principal;

/// The time after which a file that was not sent is removed.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The maximum size of all files that were not sent. Above it, the oldest are removed.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// The maximum size of a file. No model accepts a larger image or document.
pub(super) const MAX_FILE_BYTES: usize = 32 * 1024 * 1024;

/// The uploaded files, the oldest first.
#[derive(Default)]
pub(super) struct Uploads(Mutex<VecDeque<Upload>>);

struct Upload {
    id: String,
    owner: Option<String>,
    content: Content,
    bytes: usize,
    at: Instant,
}

impl Uploads {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Upload>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, principal: &Principal, content: Content, bytes: usize) -> Option<String> {
        let id = random_id("").ok()?;
        let owner = principal.owner_id();
        let mut uploads = self.lock();
        uploads.retain(|upload| upload.at.elapsed() < LIFETIME);
        uploads.push_back(Upload { id: id.clone(), owner, content, bytes, at: Instant::now() });
        let mut total: usize = uploads.iter().map(|upload| upload.bytes).sum();
        while total > MAX_BYTES && uploads.len() > 1 {
            total -= uploads.pop_front().map_or(0, |upload| upload.bytes);
        }
        Some(id)
    }

    /// Returns an uploaded file. It stays until it expires, so that a message whose sending failed can be
    /// sent again.
    pub(super) fn find(&self, principal: &Principal, id: &str) -> Option<Content> {
        let uploads = self.lock();
        let owner = principal.owner_id();
        let mut owned = uploads.iter().filter(|upload| upload.owner == owner);
        owned.find(|upload| upload.id == id).map(|upload| upload.content.clone())
    }
}

/// Stores uploaded files and returns their chips.
pub(super) fn upload(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let input = Input::read(request)?;
    let mut events = Vec::new();
    for file in input.files {
        if file.bytes.len() > MAX_FILE_BYTES {
            return Err(PageFailure::invalid(format!("`{}` is larger than 32 MiB", file.name))
                .with_hint("use a tool that reads the file"));
        }
        let bytes = file.bytes.len();
        let content = input::recognize(file)?;
        let (name, description) =
            (content.resource_name().unwrap_or_default(), content.type_and_size().unwrap_or_default());
        let id = context.page.chats.uploads.add(&context.principal, content, bytes);
        let id = id.ok_or_else(|| PageFailure::invalid("the system provides no random bytes"))?;
        let chip = toolwire_page::chat::Attachment {
            id: &id,
            name: &name,
            description: &description,
            problem: None,
        };
        let html = toolwire_page::chat::attachment(&chip);
        events.push(Event::append(format!("attachment-{id}"), "attachments", html));
    }
    if events.is_empty() {
        return Err(PageFailure::invalid("the form has no file"));
    }
    Ok(Reply::changes(&events))
}
