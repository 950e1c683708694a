//! The fake providers: each rejects what its API rejects and responds as its API does.
#![allow(clippy::unwrap_used)]

mod anthropic;
mod bedrock;
mod chat;
mod chat_flavours;
mod client;
mod cohere;
mod delivery;
mod gemini;
mod ollama;
mod rendering;
mod responses;
