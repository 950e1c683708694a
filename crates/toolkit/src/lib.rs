#![doc = include_str!("../README.md")]

mod client;
mod context;
mod handler;
mod server;

pub use client::{Answer, Client, ClientError, Form, Level, NoClient};
pub use context::Context;
pub use handler::{Handler, Registered};
pub use server::{Server, ServerBuilder};
