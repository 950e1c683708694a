//! The life of one server.

pub(crate) mod state; // decides; what awaits is its driver
