//! The suite's client scenarios, each with the behaviour that it checks and the steps of the client.
//!
//! The suite starts a server, runs the client with that server's URL as its last argument, and checks the
//! requests. The client's environment has `MCP_CONFORMANCE_SCENARIO`, `MCP_CONFORMANCE_PROTOCOL_VERSION` (the
//! revision of the run) and, for some scenarios, `MCP_CONFORMANCE_CONTEXT` (JSON). A warning counts as a
//! failure. A client that exits with an error fails the scenario, except where it must refuse to continue.

/// The steps of the client in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Connects, lists the tools and calls each with valid arguments.
    CallTools,
    /// Connects and lists the tools.
    ListTools,
    /// Connects, lists the tools and makes the calls in the context.
    CallFromContext,
    /// Calls the tools that require input concurrently with one that does not.
    GiveInput,
    /// Sends the listed input schema of one tool to another tool.
    EchoSchema,
    /// Signs in as a user, then calls the tools.
    SignIn,
    /// Signs in with the client's own credentials in the context, then calls the tools.
    SignInAsClient,
    /// As [`Flow::SignIn`], with the client's registration in the context.
    SignInRegistered,
    /// Skipped, with the reason.
    Skip(&'static str),
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) flow: Flow,
    /// The behaviour that the suite checks.
    pub(crate) checks: &'static str,
}

const fn scenario(name: &'static str, flow: Flow, checks: &'static str) -> Scenario {
    Scenario { name, flow, checks }
}

/// Returns the maximum number of attempts. Scenarios that measure time can fail on a busy machine.
pub(crate) fn max_attempts(name: &str) -> usize {
    match name {
        // The client must reconnect 450 to 700 ms after the stream ended.
        "sse-retry" => 3,
        _ => 1,
    }
}

pub(crate) fn named(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

const EXTENSION: &str = "an optional extension of MCP that the hub does not support";

const SCENARIOS: &[Scenario] = &[
    // The protocol.
    scenario(
        "initialize",
        Flow::CallTools,
        "`initialize` contains version and client; an empty result of the probe does not count as discovery",
    ),
    scenario(
        "tools_call",
        Flow::CallTools,
        "`add_numbers` is called with two numbers, in the era of the run",
    ),
    scenario(
        "elicitation-sep1034-client-defaults",
        Flow::CallTools,
        "an elicitation that is accepted without changes returns the schema's defaults",
    ),
    scenario(
        "sse-retry",
        Flow::CallTools,
        "a stream that ends before the response is resumed by GET with `Last-Event-ID`, after its `retry` time",
    ),
    scenario(
        "request-metadata",
        Flow::ListTools,
        "each request has `_meta` with version, client and capabilities, and the same version in its header; a rejected version is replaced with one that the server supports",
    ),
    scenario(
        "sep-2322-client-request-state",
        Flow::GiveInput,
        "a call that requires input is repeated with a new id, the input and exactly the received `requestState` (or none); other calls have none of it; a result without `resultType` is complete",
    ),
    scenario(
        "http-standard-headers",
        Flow::CallTools,
        "`Mcp-Method` on every POST and `Mcp-Name` on calls match the body",
    ),
    scenario(
        "http-custom-headers",
        Flow::CallFromContext,
        "arguments marked `x-mcp-header` are also sent as `Mcp-Param-…`, in Base64 if they are not plain ASCII; null and unmarked ones are not",
    ),
    scenario(
        "http-invalid-tool-headers",
        Flow::CallTools,
        "tools with an `x-mcp-header` that is empty, duplicated, not a token or not on a primitive are never called; the valid one is",
    ),
    scenario(
        "json-schema-ref-no-deref",
        Flow::ListTools,
        "a `$ref` to the network in an input schema is never fetched",
    ),
    scenario(
        "json-schema-2020-12-preservation",
        Flow::EchoSchema,
        "every keyword of an input schema is preserved",
    ),
    // Sign-in. All check the metadata of the resource, then of the authorization server, registration, PKCE
    // with S256, a token for the resource, and the token in each request.
    scenario(
        "auth/metadata-default",
        Flow::SignIn,
        "metadata at the path-based URL in the challenge; the root is not requested",
    ),
    scenario(
        "auth/metadata-var1",
        Flow::SignIn,
        "metadata at the path-based URL without a challenge; the authorization server has only OpenID metadata",
    ),
    scenario(
        "auth/metadata-var2",
        Flow::SignIn,
        "metadata at the root; the issuer's path is placed after `.well-known`",
    ),
    scenario(
        "auth/metadata-var3",
        Flow::SignIn,
        "metadata at any URL in the challenge; OpenID metadata below the issuer's path; the root is not requested",
    ),
    scenario(
        "auth/basic-cimd",
        Flow::SignIn,
        "the client's id is the URL of its metadata document if the server supports that",
    ),
    scenario("auth/scope-from-www-authenticate", Flow::SignIn, "the scope in the challenge is requested"),
    scenario(
        "auth/scope-from-scopes-supported",
        Flow::SignIn,
        "all of the resource's `scopes_supported` are requested if the challenge has no scope",
    ),
    scenario(
        "auth/scope-omitted-when-undefined",
        Flow::SignIn,
        "no scope is requested if neither defines one",
    ),
    scenario(
        "auth/scope-step-up",
        Flow::SignIn,
        "401 on the list, then 403 `insufficient_scope` on the call: signs in again with the old scopes and the new one",
    ),
    scenario(
        "auth/scope-retry-limit",
        Flow::SignIn,
        "403 every time: stops after at most 3 sign-ins (the client may exit with an error)",
    ),
    scenario(
        "auth/token-endpoint-auth-basic",
        Flow::SignIn,
        "the secret is sent as HTTP Basic if only that is supported; `resource` in both requests",
    ),
    scenario(
        "auth/token-endpoint-auth-post",
        Flow::SignIn,
        "the secret is sent in the form if only that is supported; `resource` in both requests",
    ),
    scenario(
        "auth/token-endpoint-auth-none",
        Flow::SignIn,
        "a public client sends no secret; `resource` in both requests",
    ),
    scenario(
        "auth/pre-registration",
        Flow::SignInRegistered,
        "without registration, the id and secret in the context are used as HTTP Basic",
    ),
    scenario(
        "auth/resource-mismatch",
        Flow::SignIn,
        "metadata of another resource: no sign-in (the client may exit with an error)",
    ),
    scenario(
        "auth/offline-access-scope",
        Flow::SignIn,
        "`offline_access` may be requested if it is supported; `refresh_token` is a registered grant",
    ),
    scenario(
        "auth/offline-access-not-supported",
        Flow::SignIn,
        "`offline_access` is not requested if it is not supported",
    ),
    scenario(
        "auth/authorization-server-migration",
        Flow::SignIn,
        "the resource changes its authorization server: the client registers again and does not reuse the first id",
    ),
    scenario("auth/iss-supported", Flow::SignIn, "`iss` in the redirect is the issuer: continues"),
    scenario("auth/iss-not-advertised", Flow::SignIn, "no `iss` and none advertised: continues"),
    scenario(
        "auth/iss-supported-missing",
        Flow::SignIn,
        "`iss` advertised and missing: no token request (the client may exit with an error)",
    ),
    scenario(
        "auth/iss-wrong-issuer",
        Flow::SignIn,
        "wrong `iss`: no token request (the client may exit with an error)",
    ),
    scenario(
        "auth/iss-unexpected",
        Flow::SignIn,
        "wrong `iss` that was not advertised: no token request (the client may exit with an error)",
    ),
    scenario(
        "auth/iss-normalized",
        Flow::SignIn,
        "an `iss` that differs by a slash: no token request (the client may exit with an error)",
    ),
    scenario(
        "auth/metadata-issuer-mismatch",
        Flow::SignIn,
        "metadata with an unexpected `issuer` is not used (the client may exit with an error)",
    ),
    // Extensions, which are never scored; the hub runs those that it supports.
    scenario(
        "auth/client-credentials-jwt",
        Flow::SignInAsClient,
        "the client signs in for itself with a JWT, signed by the key in the context, whose audience is the issuer",
    ),
    scenario(
        "auth/client-credentials-basic",
        Flow::SignInAsClient,
        "the client signs in for itself with its secret as HTTP Basic",
    ),
    scenario(
        "auth/enterprise-managed-authorization",
        Flow::Skip(EXTENSION),
        "an identity provider's token is exchanged for a grant, and the grant for the token",
    ),
    scenario(
        "auth/dpop",
        Flow::Skip(EXTENSION),
        "tokens are bound to a key, and each request proves possession of it",
    ),
    scenario(
        "auth/dpop-nonce",
        Flow::Skip(EXTENSION),
        "as `auth/dpop`, with a nonce from the server in each proof",
    ),
    scenario(
        "auth/wif-jwt-bearer",
        Flow::Skip(EXTENSION),
        "the JWT of a workload is exchanged for the token",
    ),
];
