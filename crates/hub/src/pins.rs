//! Definitions as they were last seen.
