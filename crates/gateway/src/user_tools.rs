//! The tools of each user: those of all servers, and those of the servers for which the user has credentials.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use toolwire_agent::CombinedToolbox;
use toolwire_contract::keys::KeyRights;
use toolwire_contract::toolbox::Toolbox;

use crate::access::screened;
use crate::gateway::{Agents, Inner};
use crate::mcp::tools::McpToolboxes;
use crate::permitted_tools::PermittedToolboxes;
use crate::principal::Principal;
use crate::user_servers::ServerUser;

/// The maximum number of users whose tools are remembered. Connections exist independently of it.
const MAX_USERS: usize = 256;

/// The label of the servers that all users share.
const SHARED: &str = "toolwire";

/// The tools of the users that were active most recently.
#[derive(Default)]
pub(crate) struct UserToolboxes(Mutex<VecDeque<Arc<UserTools>>>);

/// The tools of one user, and what was computed from them. Nothing of it is used for another user.
pub(crate) struct UserTools {
    user: ServerUser,
    /// The rights that determine which servers are among the tools.
    rights: Option<Arc<KeyRights>>,
    /// The version of the configured servers.
    version: u64,
    pub(crate) all: Arc<dyn Toolbox>,
    pub(crate) permitted: PermittedToolboxes,
    pub(crate) mcp: McpToolboxes,
    pub(crate) agents: Agents,
}

impl UserToolboxes {
    fn of(
        &self,
        user: ServerUser,
        rights: Option<&Arc<KeyRights>>,
        version: u64,
        new: impl FnOnce(&ServerUser) -> Arc<dyn Toolbox>,
    ) -> Arc<UserTools> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Tools of an earlier configuration of the servers are removed.
        known.retain(|tools| tools.version >= version);
        let is_same = |tools: &Arc<UserTools>| tools.user == user && tools.rights.as_ref() == rights;
        let found = known.iter().position(is_same);
        let tools = match found.and_then(|index| known.remove(index)) {
            Some(tools) => tools,
            None => Arc::new(UserTools {
                all: new(&user),
                user,
                rights: rights.cloned(),
                version,
                permitted: PermittedToolboxes::default(),
                mcp: McpToolboxes::default(),
                agents: Agents::default(),
            }),
        };
        known.push_back(tools.clone());
        if known.len() > MAX_USERS {
            known.pop_front();
        }
        tools
    }
}

impl Inner {
    /// Returns the tools of the user of a request; `None` if no server has credentials of its users.
    pub(crate) fn user_tools(&self, principal: &Principal) -> Option<Arc<UserTools>> {
        let servers = self.user_servers.get().filter(|servers| !servers.is_empty())?;
        // Read before the servers: if they change in between, the next request gets the new ones.
        let version = servers.version();
        let new = |user: &ServerUser| {
            let shared = [(SHARED, self.given_tools.clone())];
            let mut of_user = servers.servers(user);
            // Nothing connects to a server that the key may not use.
            of_user.retain(|(name, _)| principal.permits_server(name));
            let combined = CombinedToolbox::new(shared).with_servers(of_user);
            screened(Arc::new(combined), &self.settings)
        };
        Some(self.users.of(principal.server_user(), principal.tool_rights(), version, new))
    }
}

#[cfg(test)]
mod tests {
    use toolwire_agent::Functions;
    use toolwire_contract::Secret;

    use super::*;

    #[test]
    fn users_and_their_credentials_have_tools_of_their_own() {
        let users = UserToolboxes::default();
        let of = |id: &str, token: Option<&str>| {
            let headers = token.map(|token| ("x-token".to_owned(), Secret::new(token)));
            let user = ServerUser::new(id, headers.into_iter().collect());
            users.of(user, None, 0, |_| Arc::new(Functions::new()))
        };
        let one = of("one", Some("a"));
        assert!(Arc::ptr_eq(&one, &of("one", Some("a"))));
        for other in [of("two", Some("a")), of("one", Some("b")), of("one", None)] {
            assert!(!Arc::ptr_eq(&one, &other));
        }
        for number in 0..MAX_USERS - 1 {
            of(&format!("other-{number}"), None);
            assert!(Arc::ptr_eq(&one, &of("one", Some("a"))), "it is used again and again");
        }
        let changed = users.of(ServerUser::new("two", Vec::new()), None, 1, |_| Arc::new(Functions::new()));
        assert_eq!(users.0.lock().expect("no panic").len(), 1, "the servers have changed");
        assert_eq!(changed.version, 1);
        let users = UserToolboxes::default();
        let of =
            |id: &str| users.of(ServerUser::new(id, Vec::new()), None, 1, |_| Arc::new(Functions::new()));
        let one = of("one");
        (0..MAX_USERS).for_each(|number| drop(of(&format!("new-{number}"))));
        assert!(!Arc::ptr_eq(&one, &of("one")));
        assert_eq!(users.0.lock().expect("no panic").len(), MAX_USERS);
    }
}
