//! Parses the credentials of users: the keys `auth` and `forwardHeaders` of a server.

use reqwest::header::HeaderName;
use toolwire_contract::headers::is_of_connection;

use super::problem::Problem;
use super::values::{ConfigParser, ConfigValue};
use super::{ConfigProblem, Transport};
use crate::auth::GrantKind;

/// The credentials that a user of a gateway has for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserCredentials {
    /// The tokens of the user, who signs in with OAuth.
    Login,
    /// Headers of the user's requests.
    Headers(Vec<ForwardedHeader>),
}

/// A header of a user's request that only one server gets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForwardedHeader {
    /// The name of the header that the server gets, in lower case.
    pub name: String,
    /// The name of the header that the user sends, in lower case.
    pub from: String,
}

/// Headers in requests to a gateway that have a meaning for the gateway itself.
const HEADERS_OF_GATEWAY: [&str; 5] = ["authorization", "cookie", "origin", "referer", "x-api-key"];

/// Whether users cannot choose a header, because the connection, a browser or the gateway sets it.
fn is_reserved(name: &str) -> bool {
    is_of_connection(name) || ["sec-", "x-toolwire-"].iter().any(|start| name.starts_with(start))
}

impl ConfigParser<'_> {
    pub(super) fn user_credentials(
        &mut self,
        server: &ConfigValue<'_>,
        transport: &Transport,
    ) -> Option<UserCredentials> {
        let is_per_user = self.optional(server, "auth", Self::is_per_user).unwrap_or(false);
        let headers = self.optional(server, "forwardHeaders", Self::forwarded_headers);
        let problem = |at: &str, problem| server.get(at).map(|value| (value.at, problem));
        let found = match (is_per_user, transport) {
            (true, Transport::Stdio { .. }) => problem("auth", Problem::UserCredentialsOfProcess),
            (false, _) if headers.is_some() => problem("forwardHeaders", Problem::NotPerUser),
            (true, Transport::Http { oauth, .. }) if server.get("forwardHeaders").is_none() => {
                let has_login =
                    oauth.as_ref().is_some_and(|oauth| oauth.grant == GrantKind::AuthorizationCode);
                problem("auth", Problem::NoLoginOfUsers).filter(|_| !has_login)
            }
            _ => None,
        };
        if let Some((at, problem)) = found {
            let problem = self.error(&at, problem);
            self.problems.push(problem);
        }
        is_per_user.then(|| headers.map_or(UserCredentials::Login, UserCredentials::Headers))
    }

    fn is_per_user(&mut self, value: &ConfigValue<'_>) -> Result<bool, ConfigProblem> {
        let text = self.string(value)?;
        match text.as_str() {
            "per-user" => Ok(true),
            "shared" => Ok(false),
            _ => Err(self.error(&value.at, Problem::UnknownAuth { text })),
        }
    }

    /// Parses names of headers, or an object: the header for the server, and the one that the user sends.
    fn forwarded_headers(&mut self, value: &ConfigValue<'_>) -> Result<Vec<ForwardedHeader>, ConfigProblem> {
        let pairs: Vec<(String, String)> = if value.node.as_object().is_some() {
            let pairs = self.string_map(value)?;
            pairs.into_iter().map(|(name, from)| (name, from.expose().to_owned())).collect()
        } else {
            self.strings(value)?.into_iter().map(|name| (name.clone(), name)).collect()
        };
        if pairs.is_empty() {
            return Err(self.error(&value.at, Problem::Empty));
        }
        let mut headers: Vec<ForwardedHeader> = Vec::new();
        for (name, from) in pairs {
            for text in [&name, &from] {
                if HeaderName::from_bytes(text.as_bytes()).is_err() {
                    return Err(self.error(&value.at, Problem::InvalidHeaderName { name: text.clone() }));
                }
            }
            let (name, from) = (name.to_ascii_lowercase(), from.to_ascii_lowercase());
            let is_of_gateway = HEADERS_OF_GATEWAY.contains(&from.as_str());
            let is_twice = headers.iter().any(|header| header.name == name);
            if is_reserved(&name) || is_reserved(&from) || is_of_gateway || is_twice {
                let name = if is_of_gateway { from } else { name };
                return Err(self.error(&value.at, Problem::NotForwardable { name }));
            }
            headers.push(ForwardedHeader { name, from });
        }
        Ok(headers)
    }
}
