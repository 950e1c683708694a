//! Shared code for writing requests. It depends on no family.

mod error;
mod fields;
mod generation;
mod history;
mod options;
mod prepared;

pub use error::RequestError;
pub(crate) use fields::SetFields;
pub(crate) use generation::{EffortFormat, GenerationFormat, UserFormat};
pub(crate) use history::{AssistantBlock, HistoryReader, PairedCall, Turn, calls, find_foreign_content};
pub use options::{ApiSupport, OutputLimit, RequestOptions};
pub(crate) use prepared::{
    Choice, FamilyRules, PreparedRequest, UNAVAILABLE_TOOL, add_content, choose_tools, last_user_messages,
    require_final_results,
};
