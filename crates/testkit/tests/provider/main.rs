//! The scripted providers: each refuses what its API refuses and says what its API says.

mod chat;
mod client;
mod delivery;
