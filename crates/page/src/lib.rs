#![doc = include_str!("../README.md")]

pub mod assets;
pub mod chat;
pub mod dialects;
pub mod form;
mod icons;
mod json_schema;
pub mod json_view;
pub mod keys;
pub mod link;
pub mod markdown_html;
pub mod notice;
mod pointer;
pub mod result;
pub mod servers;
pub mod shell;
pub mod sign_in;
pub mod text;
pub mod time;
pub mod tools;
pub mod traffic;
pub mod user_login;

pub use maud::Markup;
