//! What to do about a token, decided from what is known and nothing else.

use super::{GrantKind, store::Grant};
use crate::Secret;

/// A token is renewed this long before it runs out, or for the last tenth of its life if that is shorter.
const MARGIN: u64 = 60;

/// Why a token is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    /// A request is about to be sent.
    Request,
    /// A request was refused for want of a good token.
    Unauthorized { refused: Option<Secret> },
    /// A request was refused for want of these rights.
    MoreScopes { refused: Option<Secret>, scopes: Vec<String> },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This token will do.
    Use(Secret),
    /// Send none, and see whether the server asks for one.
    Nothing,
    /// Refresh; if the refresh token is refused, `Ask` when there was a challenge, else `Nothing`.
    Refresh,
    /// Ask the authorization server anew: the person logs in, or the client shows its credentials.
    Ask,
}

pub(super) fn decide(grant: Option<&Grant>, need: &Need, kind: GrantKind, now: u64) -> Next {
    let Some((grant, token)) = grant.and_then(|grant| Some((grant, grant.access_token.as_ref()?))) else {
        return if *need == Need::Request { Next::Nothing } else { Next::Ask };
    };
    let fresh = age(grant, now) == Age::Fresh;
    let renew = if kind == GrantKind::ClientCredentials {
        Next::Ask
    } else if grant.refresh_token.is_some() {
        Next::Refresh
    } else {
        // Only a person can renew it, and is asked when the server has refused it.
        match need {
            Need::Request if age(grant, now) != Age::Spent => Next::Use(token.clone()),
            Need::Request => Next::Nothing,
            _ => Next::Ask,
        }
    };
    match need {
        Need::Request if fresh => Next::Use(token.clone()),
        Need::Request => renew,
        // Replaced since, perhaps by another process.
        Need::Unauthorized { refused: Some(refused) } if fresh && refused != token => {
            Next::Use(token.clone())
        }
        Need::Unauthorized { .. } => renew,
        Need::MoreScopes { refused: Some(refused), scopes }
            if fresh
                && refused != token
                && !scopes.is_empty()
                && scopes.iter().all(|scope| grant.scopes.contains(scope)) =>
        {
            Next::Use(token.clone())
        }
        // A refresh never gives more than was granted (RFC 6749 section 6).
        Need::MoreScopes { .. } => Next::Ask,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    /// Still good, and time to renew it.
    Ending,
    Spent,
}

pub(super) fn age(grant: &Grant, now: u64) -> Age {
    // Without a time the server's refusal will tell.
    let Some(expires_at) = grant.expires_at else { return Age::Fresh };
    let margin = MARGIN.min(expires_at.saturating_sub(grant.issued_at) / 10);
    if now >= expires_at {
        Age::Spent
    } else if now >= expires_at - margin {
        Age::Ending
    } else {
        Age::Fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::store::Client;

    fn grant(refresh_token: Option<&str>) -> Grant {
        let client = Client { id: "client".to_owned(), secret: None, registered: false };
        Grant {
            access_token: Some(Secret::new("held")),
            refresh_token: refresh_token.map(Secret::new),
            issued_at: 10_000,
            expires_at: Some(13_600),
            scopes: vec!["read".to_owned()],
            ..Grant::new("https://example.com/mcp".to_owned(), "https://issuer.example".to_owned(), client)
        }
    }

    fn refused(token: &str) -> Need {
        Need::Unauthorized { refused: Some(Secret::new(token)) }
    }

    fn more(token: Option<&str>, scopes: &[&str]) -> Need {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        Need::MoreScopes { refused: token.map(Secret::new), scopes }
    }

    #[test]
    fn a_person_is_asked_only_when_the_server_asked_first() {
        let held = || Next::Use(Secret::new("held"));
        let unknown = Need::Unauthorized { refused: None };
        let (early, ending, late) = (10_001, 13_550, 13_600);
        for (refresh_token, need, now, expected) in [
            (Some("r"), Need::Request, early, held()),
            (Some("r"), Need::Request, ending, Next::Refresh),
            (Some("r"), Need::Request, late, Next::Refresh),
            (None, Need::Request, early, held()),
            (None, Need::Request, ending, held()),
            (None, Need::Request, late, Next::Nothing),
            (Some("r"), refused("held"), early, Next::Refresh),
            (Some("r"), refused("older"), early, held()),
            (Some("r"), refused("older"), late, Next::Refresh),
            (Some("r"), unknown.clone(), early, Next::Refresh),
            (None, refused("held"), early, Next::Ask),
            (None, refused("older"), early, held()),
            (None, unknown.clone(), early, Next::Ask),
            (Some("r"), more(Some("held"), &["write"]), early, Next::Ask),
            (Some("r"), more(Some("older"), &["write"]), early, Next::Ask),
            (Some("r"), more(Some("older"), &["read"]), early, held()),
            (Some("r"), more(Some("older"), &[]), early, Next::Ask),
            (Some("r"), more(None, &["read"]), early, Next::Ask),
        ] {
            let next = decide(Some(&grant(refresh_token)), &need, GrantKind::AuthorizationCode, now);
            assert_eq!(next, expected, "{refresh_token:?} {need:?} at {now}");
        }
        for (need, expected) in
            [(Need::Request, Next::Nothing), (unknown, Next::Ask), (more(None, &["read"]), Next::Ask)]
        {
            assert_eq!(decide(None, &need, GrantKind::AuthorizationCode, early), expected);
        }
    }

    #[test]
    fn a_client_renews_its_own_token_without_a_challenge() {
        let grant = grant(None);
        let decide_at = |now| decide(Some(&grant), &Need::Request, GrantKind::ClientCredentials, now);
        assert_eq!(decide_at(10_001), Next::Use(Secret::new("held")));
        assert_eq!(decide_at(13_550), Next::Ask);
        assert_eq!(decide_at(13_700), Next::Ask);
        assert_eq!(decide(None, &Need::Request, GrantKind::ClientCredentials, 0), Next::Nothing);
    }

    #[test]
    fn a_short_lived_token_is_used_for_most_of_its_life() {
        let short = Grant { expires_at: Some(10_030), ..grant(None) };
        assert_eq!(age(&short, 10_026), Age::Fresh);
        assert_eq!(age(&short, 10_027), Age::Ending);
        assert_eq!(age(&short, 10_030), Age::Spent);
        assert_eq!(age(&Grant { expires_at: Some(0), ..grant(None) }, 10_000), Age::Spent);
        assert_eq!(age(&Grant { expires_at: None, ..grant(None) }, u64::MAX), Age::Fresh);
    }
}
