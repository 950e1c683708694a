//! Shared code for writing requests. It depends on no family.

mod error;
mod fields;
mod generation;
mod history;
mod options;
mod prepared;

pub use crate::ids::wire_id;
pub use crate::output::{BoundOutput, OutputMethod, separates_output};
pub use crate::verbatim::{verbatim_request, write_request_text};
pub use crate::write::{check_content, dropped_parameters, foreign_content, write_calls, write_request};
pub use error::RequestError;
pub(crate) use fields::SetFields;
pub(crate) use generation::{EffortFormat, GenerationFormat, UserFormat};
pub(crate) use history::{AssistantBlock, HistoryReader, PairedCall, Turn, calls, find_foreign_content};
pub use options::{ApiSupport, OutputLimit, RequestOptions};
pub(crate) use prepared::{
    Choice, FamilyRules, PreparedRequest, UNAVAILABLE_TOOL, add_content, choose_tools, last_user_messages,
    require_final_results,
};
