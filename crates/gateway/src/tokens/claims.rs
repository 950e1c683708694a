//! The claims of a token with a valid signature.

use serde_json::{Map, Value};
use toolwire_contract::conversations::Timestamp;
use toolwire_contract::keys::KeyRights;

use super::TokenError::{self, Refused};
use super::TokenIssuer;
use crate::principal::Identity;

/// The tolerated difference between the clocks of the issuer and of the gateway.
const CLOCK_TOLERANCE_MILLISECONDS: u64 = 30_000;

/// The maximum time from the issue of a token to its expiry.
const MAX_LIFETIME_MILLISECONDS: u64 = 24 * 60 * 60 * 1_000;

const MAX_TEXT_BYTES: usize = 1_024;

/// The claims of a valid token.
pub(super) struct Claims<'a> {
    all: &'a Map<String, Value>,
    subject: &'a str,
    expires: Timestamp,
}

impl<'a> Claims<'a> {
    pub(super) fn check(
        all: &'a Map<String, Value>,
        issuer: &TokenIssuer,
        now: Timestamp,
    ) -> Result<Claims<'a>, TokenError> {
        let expires = time(all, "exp")?.ok_or(Refused("it has no expiry"))?;
        if now.0 >= expires.saturating_add(CLOCK_TOLERANCE_MILLISECONDS) {
            return Err(Refused("it has expired"));
        }
        if time(all, "nbf")?.is_some_and(|start| start > now.0.saturating_add(CLOCK_TOLERANCE_MILLISECONDS)) {
            return Err(Refused("it is not valid yet"));
        }
        match time(all, "iat")? {
            Some(issued) if issued > now.0.saturating_add(CLOCK_TOLERANCE_MILLISECONDS) => {
                return Err(Refused("it was issued in the future"));
            }
            issued if expires > issued.unwrap_or(now.0).saturating_add(MAX_LIFETIME_MILLISECONDS) => {
                return Err(Refused("it is valid for more than a day"));
            }
            _ => {}
        }
        if all.get("iss").and_then(Value::as_str) != Some(&issuer.issuer) {
            return Err(Refused("its issuer is not the configured one"));
        }
        let is_accepted = |audience: &Value| {
            audience.as_str().is_some_and(|name| issuer.audiences.iter().any(|own| own == name))
        };
        let has_audience = match all.get("aud") {
            Some(Value::Array(audiences)) => audiences.iter().any(is_accepted),
            Some(audience) => is_accepted(audience),
            None => false,
        };
        if !has_audience {
            return Err(Refused("it is for another audience"));
        }
        let subject = text(all, "sub").ok_or(Refused("it has no subject"))?;
        Ok(Claims { all, subject, expires: Timestamp(expires) })
    }

    /// Returns the owner of the token, with its rights.
    pub(super) fn identity(&self, issuer: &TokenIssuer) -> Result<Identity, TokenError> {
        let rule = issuer.rules.iter().find(|rule| self.has(&rule.claim, &rule.value));
        let rights: &KeyRights = match rule {
            Some(rule) => &rule.rights,
            None => issuer.rights.as_ref().ok_or(Refused("it matches no rule"))?,
        };
        let tenant = match &issuer.tenant_claim {
            Some(claim) => Some(text(self.all, claim).ok_or(Refused("it does not name a tenant"))?),
            None => None,
        };
        let name = issuer.name_claim.as_ref().and_then(|claim| text(self.all, claim));
        let name = name.unwrap_or(self.subject);
        Ok(Identity::token(&issuer.issuer, self.subject, name, tenant, rights.clone(), self.expires))
    }

    /// Whether a claim has a value, or contains it.
    fn has(&self, claim: &str, value: &str) -> bool {
        match self.all.get(claim) {
            Some(Value::String(text)) => text == value || text.split(' ').any(|part| part == value),
            Some(Value::Array(values)) => values.iter().any(|found| found == value),
            _ => false,
        }
    }
}

/// Returns a time in milliseconds. A text is not a time, whatever it contains.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, TokenError> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => {
            let seconds =
                value.as_f64().filter(|seconds| seconds.is_finite() && (0.0..1e12).contains(seconds));
            // The value is in the range of the type.
            seconds
                .map(|seconds| Some((seconds * 1_000.0) as u64))
                .ok_or(Refused("a time in it is not a number"))
        }
    }
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let text = claims.get(name)?.as_str()?;
    (!text.is_empty() && text.len() <= MAX_TEXT_BYTES).then_some(text)
}
