//! Every provider, through the servers of the testkit that speak its API strictly.

mod answers;
mod connections;
mod cuts;
mod deadlines;
mod errors;
mod histories;
mod secrets;
mod setting;
mod signed;
