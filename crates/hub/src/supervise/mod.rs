//! The life of one server.
