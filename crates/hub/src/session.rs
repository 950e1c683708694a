//! One connected server.
