//! Decides how to get a token, as a pure function of the stored grant, the need and the time.

use super::{GrantKind, token_store::Grant};
use crate::Secret;

/// A token is renewed this long before it expires, or in the last tenth of its lifetime if that is shorter.
const RENEWAL_MARGIN_SECS: u64 = 60;

/// The reason why a token is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenNeed {
    /// A request is about to be sent.
    Request,
    /// A request was refused because it had no valid token.
    Unauthorized { refused: Option<Secret> },
    /// A request was refused because its token lacks these scopes.
    MoreScopes { refused: Option<Secret>, scopes: Vec<String> },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    Use(Secret),
    /// Send the request without a token; the server responds with a challenge if it requires one.
    SendWithout,
    /// Refresh the token. If that is rejected: `Authorize` after a challenge, else `SendWithout`.
    Refresh,
    /// Request a new grant: the user logs in, or the client sends its credentials.
    Authorize,
}

pub(super) fn next_step(grant: Option<&Grant>, need: &TokenNeed, kind: GrantKind, now: u64) -> NextStep {
    let Some((grant, token)) = grant.and_then(|grant| Some((grant, grant.access_token.as_ref()?))) else {
        return if *need == TokenNeed::Request { NextStep::SendWithout } else { NextStep::Authorize };
    };
    let is_valid = validity(grant, now) == Validity::Valid;
    let renew = if kind == GrantKind::ClientCredentials {
        NextStep::Authorize
    } else if grant.refresh_token.is_some() {
        NextStep::Refresh
    } else {
        // Only a new login can renew it, and that waits until the server refuses the token.
        match need {
            TokenNeed::Request if validity(grant, now) != Validity::Expired => NextStep::Use(token.clone()),
            TokenNeed::Request => NextStep::SendWithout,
            _ => NextStep::Authorize,
        }
    };
    match need {
        TokenNeed::Request if is_valid => NextStep::Use(token.clone()),
        TokenNeed::Request => renew,
        // The refused token was replaced in the meantime, perhaps by another process.
        TokenNeed::Unauthorized { refused: Some(refused) } if is_valid && refused != token => {
            NextStep::Use(token.clone())
        }
        TokenNeed::Unauthorized { .. } => renew,
        TokenNeed::MoreScopes { refused: Some(refused), scopes }
            if is_valid
                && refused != token
                && !scopes.is_empty()
                && scopes.iter().all(|scope| grant.scopes.contains(scope)) =>
        {
            NextStep::Use(token.clone())
        }
        // A refresh never adds scopes (RFC 6749 section 6).
        TokenNeed::MoreScopes { .. } => NextStep::Authorize,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Validity {
    Valid,
    /// Still valid, but should be renewed.
    ExpiresSoon,
    Expired,
}

pub(super) fn validity(grant: &Grant, now: u64) -> Validity {
    // Without an expiry time, the token is used until the server refuses it.
    let Some(expires_at) = grant.expires_at else { return Validity::Valid };
    let margin = RENEWAL_MARGIN_SECS.min(expires_at.saturating_sub(grant.issued_at) / 10);
    if now >= expires_at {
        Validity::Expired
    } else if now >= expires_at - margin {
        Validity::ExpiresSoon
    } else {
        Validity::Valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::token_store::OAuthClient;

    fn grant(refresh_token: Option<&str>) -> Grant {
        let client = OAuthClient { id: "client".to_owned(), secret: None, registered: false };
        Grant {
            access_token: Some(Secret::new("current")),
            refresh_token: refresh_token.map(Secret::new),
            issued_at: 10_000,
            expires_at: Some(13_600),
            scopes: vec!["read".to_owned()],
            ..Grant::new("https://example.com/mcp".to_owned(), "https://issuer.example".to_owned(), client)
        }
    }

    fn refused(token: &str) -> TokenNeed {
        TokenNeed::Unauthorized { refused: Some(Secret::new(token)) }
    }

    fn more(token: Option<&str>, scopes: &[&str]) -> TokenNeed {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        TokenNeed::MoreScopes { refused: token.map(Secret::new), scopes }
    }

    #[test]
    fn a_login_starts_only_after_a_challenge() {
        let use_current = || NextStep::Use(Secret::new("current"));
        let unknown = TokenNeed::Unauthorized { refused: None };
        let (early, soon, late) = (10_001, 13_550, 13_600);
        for (refresh_token, need, now, expected) in [
            (Some("r"), TokenNeed::Request, early, use_current()),
            (Some("r"), TokenNeed::Request, soon, NextStep::Refresh),
            (Some("r"), TokenNeed::Request, late, NextStep::Refresh),
            (None, TokenNeed::Request, early, use_current()),
            (None, TokenNeed::Request, soon, use_current()),
            (None, TokenNeed::Request, late, NextStep::SendWithout),
            (Some("r"), refused("current"), early, NextStep::Refresh),
            (Some("r"), refused("older"), early, use_current()),
            (Some("r"), refused("older"), late, NextStep::Refresh),
            (Some("r"), unknown.clone(), early, NextStep::Refresh),
            (None, refused("current"), early, NextStep::Authorize),
            (None, refused("older"), early, use_current()),
            (None, unknown.clone(), early, NextStep::Authorize),
            (Some("r"), more(Some("current"), &["write"]), early, NextStep::Authorize),
            (Some("r"), more(Some("older"), &["write"]), early, NextStep::Authorize),
            (Some("r"), more(Some("older"), &["read"]), early, use_current()),
            (Some("r"), more(Some("older"), &[]), early, NextStep::Authorize),
            (Some("r"), more(None, &["read"]), early, NextStep::Authorize),
        ] {
            let step = next_step(Some(&grant(refresh_token)), &need, GrantKind::AuthorizationCode, now);
            assert_eq!(step, expected, "{refresh_token:?} {need:?} at {now}");
        }
        for (need, expected) in [
            (TokenNeed::Request, NextStep::SendWithout),
            (unknown, NextStep::Authorize),
            (more(None, &["read"]), NextStep::Authorize),
        ] {
            assert_eq!(next_step(None, &need, GrantKind::AuthorizationCode, early), expected);
        }
    }

    #[test]
    fn client_credentials_renew_a_token_without_a_challenge() {
        let grant = grant(None);
        let step_at = |now| next_step(Some(&grant), &TokenNeed::Request, GrantKind::ClientCredentials, now);
        assert_eq!(step_at(10_001), NextStep::Use(Secret::new("current")));
        assert_eq!(step_at(13_550), NextStep::Authorize);
        assert_eq!(step_at(13_700), NextStep::Authorize);
        assert_eq!(
            next_step(None, &TokenNeed::Request, GrantKind::ClientCredentials, 0),
            NextStep::SendWithout
        );
    }

    #[test]
    fn a_short_lived_token_is_used_for_most_of_its_lifetime() {
        let short = Grant { expires_at: Some(10_030), ..grant(None) };
        assert_eq!(validity(&short, 10_026), Validity::Valid);
        assert_eq!(validity(&short, 10_027), Validity::ExpiresSoon);
        assert_eq!(validity(&short, 10_030), Validity::Expired);
        assert_eq!(validity(&Grant { expires_at: Some(0), ..grant(None) }, 10_000), Validity::Expired);
        assert_eq!(validity(&Grant { expires_at: None, ..grant(None) }, u64::MAX), Validity::Valid);
    }
}
