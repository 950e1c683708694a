//! The scripted providers: each refuses what its API refuses and says what its API says.
#![allow(clippy::unwrap_used)]

mod anthropic;
mod bedrock;
mod chat;
mod client;
mod cohere;
mod delivery;
mod flavours;
mod gemini;
mod ollama;
mod rendered;
mod responses;
