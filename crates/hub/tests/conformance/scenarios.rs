//! The suite's client scenarios: what each wants to see, and what the client does for it.
//!
//! The suite starts a server, runs the client with that server's URL as its last argument, and looks at what arrives. In
//! the client's environment are `MCP_CONFORMANCE_SCENARIO`, `MCP_CONFORMANCE_PROTOCOL_VERSION` (the revision of the run) and,
//! for some, `MCP_CONFORMANCE_CONTEXT` (JSON). A warning fails a scenario as a failure does, and so does a client that ends
//! with an error, but for the scenarios in which it must refuse to go on.

/// What the client does in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Connects, lists the tools and calls each with arguments that fit.
    CallTools,
    /// Connects and lists the tools.
    ListTools,
    /// Connects, lists the tools and makes the calls in the context.
    CallAsTold,
    /// Calls the tools that want input at the same time as one that does not.
    GiveInput,
    /// Hands a tool the input schema of another, as it was listed.
    EchoSchema,
    /// Signs in as a person would, then calls the tools.
    SignIn,
    /// Signs in with the client's own credentials in the context, then calls the tools.
    SignInAsClient,
    /// As [`Flow::SignIn`], with the client's registration in the context.
    SignInRegistered,
    /// Left out, for the reason given.
    Skip(&'static str),
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) flow: Flow,
    /// What the suite checks.
    pub(crate) wants: &'static str,
}

const fn scenario(name: &'static str, flow: Flow, wants: &'static str) -> Scenario {
    Scenario { name, flow, wants }
}

/// Scenarios that hold the client to the clock, which a busy machine may miss: so many tries.
pub(crate) fn tries(name: &str) -> usize {
    match name {
        // The client must come back 450 to 700 ms after the stream ended.
        "sse-retry" => 3,
        _ => 1,
    }
}

pub(crate) fn named(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

const EXTENSION: &str = "an extension that MCP does not require, and that the hub does not have";

const SCENARIOS: &[Scenario] = &[
    // The protocol.
    scenario(
        "initialize",
        Flow::CallTools,
        "`initialize` names version and client; the probe for newer servers gets an empty result and must not count as one",
    ),
    scenario("tools_call", Flow::CallTools, "`add_numbers` is called with two numbers, in the run's era"),
    scenario(
        "elicitation-sep1034-client-defaults",
        Flow::CallTools,
        "an elicitation that is accepted with nothing filled in is answered with the schema's defaults",
    ),
    scenario(
        "sse-retry",
        Flow::CallTools,
        "a stream that ends before the answer is resumed by GET with `Last-Event-ID`, after the `retry` it announced",
    ),
    scenario(
        "request-metadata",
        Flow::ListTools,
        "each request has `_meta` with version, client and capabilities, and the same version in its header; a refused version is tried again with one the server supports",
    ),
    scenario(
        "sep-2322-client-request-state",
        Flow::GiveInput,
        "a call that wants input is repeated with a new id, the answers and exactly the `requestState` it was given (or none); other calls carry none of it; a result without `resultType` is complete",
    ),
    scenario(
        "http-standard-headers",
        Flow::CallTools,
        "`Mcp-Method` on every POST and `Mcp-Name` on calls say the same as the body",
    ),
    scenario(
        "http-custom-headers",
        Flow::CallAsTold,
        "arguments marked `x-mcp-header` also travel as `Mcp-Param-…`, in Base64 where they are no plain ASCII; null and unmarked ones do not",
    ),
    scenario(
        "http-invalid-tool-headers",
        Flow::CallTools,
        "tools with an `x-mcp-header` that is empty, twice, no token or on no primitive are never called; the good one is",
    ),
    scenario(
        "json-schema-ref-no-deref",
        Flow::ListTools,
        "a `$ref` to the network in an input schema is never fetched",
    ),
    scenario(
        "json-schema-2020-12-preservation",
        Flow::EchoSchema,
        "an input schema comes back with every keyword it had",
    ),
    // Signing in. In all: the resource's metadata, then the authorization server's, registration, PKCE with S256, a token
    // for the resource, and the token in each request.
    scenario(
        "auth/metadata-default",
        Flow::SignIn,
        "metadata at the path-based place that the challenge names; the root is not asked",
    ),
    scenario(
        "auth/metadata-var1",
        Flow::SignIn,
        "metadata at the path-based place though no challenge names it; the authorization server has OpenID metadata only",
    ),
    scenario(
        "auth/metadata-var2",
        Flow::SignIn,
        "metadata at the root; the authorization server's issuer has a path, which goes behind `.well-known`",
    ),
    scenario(
        "auth/metadata-var3",
        Flow::SignIn,
        "metadata where the challenge says, anywhere; OpenID metadata below the issuer's path; the root is not asked",
    ),
    scenario(
        "auth/basic-cimd",
        Flow::SignIn,
        "the client's id is the URL of its metadata document where the server supports that",
    ),
    scenario("auth/scope-from-www-authenticate", Flow::SignIn, "the scope of the challenge is asked for"),
    scenario(
        "auth/scope-from-scopes-supported",
        Flow::SignIn,
        "all of the resource's `scopes_supported` are asked for where the challenge has none",
    ),
    scenario(
        "auth/scope-omitted-when-undefined",
        Flow::SignIn,
        "no scope is asked for where neither names one",
    ),
    scenario(
        "auth/scope-step-up",
        Flow::SignIn,
        "401 on the list, then 403 `insufficient_scope` on the call: signs in again, for the old scopes and the new one",
    ),
    scenario(
        "auth/scope-retry-limit",
        Flow::SignIn,
        "403 for ever: gives up after at most 3 sign-ins (the client may end with an error)",
    ),
    scenario(
        "auth/token-endpoint-auth-basic",
        Flow::SignIn,
        "the secret travels as HTTP Basic where only that is supported; `resource` in both requests",
    ),
    scenario(
        "auth/token-endpoint-auth-post",
        Flow::SignIn,
        "the secret travels in the form where only that is supported; `resource` in both requests",
    ),
    scenario(
        "auth/token-endpoint-auth-none",
        Flow::SignIn,
        "a client without a secret sends none; `resource` in both requests",
    ),
    scenario(
        "auth/pre-registration",
        Flow::SignInRegistered,
        "there is no registration: the id and secret in the context are used, as HTTP Basic",
    ),
    scenario(
        "auth/resource-mismatch",
        Flow::SignIn,
        "metadata of another resource: no sign-in (the client may end with an error)",
    ),
    scenario(
        "auth/offline-access-scope",
        Flow::SignIn,
        "`offline_access` may be asked for where it is supported; `refresh_token` is among the registered grants",
    ),
    scenario(
        "auth/offline-access-not-supported",
        Flow::SignIn,
        "`offline_access` is not asked for where it is not supported",
    ),
    scenario(
        "auth/authorization-server-migration",
        Flow::SignIn,
        "after the first request the resource names another authorization server: registers there anew, never with the id of the first",
    ),
    scenario("auth/iss-supported", Flow::SignIn, "`iss` in the redirect is the issuer: goes on"),
    scenario("auth/iss-not-advertised", Flow::SignIn, "no `iss` and none announced: goes on"),
    scenario(
        "auth/iss-supported-missing",
        Flow::SignIn,
        "`iss` announced and missing: no token request (the client may end with an error)",
    ),
    scenario(
        "auth/iss-wrong-issuer",
        Flow::SignIn,
        "another `iss`: no token request (the client may end with an error)",
    ),
    scenario(
        "auth/iss-unexpected",
        Flow::SignIn,
        "another `iss`, though none was announced: no token request (the client may end with an error)",
    ),
    scenario(
        "auth/iss-normalized",
        Flow::SignIn,
        "an `iss` that differs by a slash: no token request (the client may end with an error)",
    ),
    scenario(
        "auth/metadata-issuer-mismatch",
        Flow::SignIn,
        "metadata with another `issuer` than it was found by is not used (the client may end with an error)",
    ),
    // Extensions: run where the hub has them, never scored.
    scenario(
        "auth/client-credentials-jwt",
        Flow::SignInAsClient,
        "the client signs in for itself, with a JWT signed by the key in the context, whose audience is the issuer",
    ),
    scenario(
        "auth/client-credentials-basic",
        Flow::SignInAsClient,
        "the client signs in for itself, with its secret as HTTP Basic",
    ),
    scenario(
        "auth/enterprise-managed-authorization",
        Flow::Skip(EXTENSION),
        "an identity provider's token is exchanged for a grant, and that for the token",
    ),
    scenario(
        "auth/dpop",
        Flow::Skip(EXTENSION),
        "tokens are bound to a key, and each request proves that the client has it",
    ),
    scenario(
        "auth/dpop-nonce",
        Flow::Skip(EXTENSION),
        "as `auth/dpop`, with a number from the server in each proof",
    ),
    scenario(
        "auth/wif-jwt-bearer",
        Flow::Skip(EXTENSION),
        "the JWT of a workload is exchanged for the token",
    ),
];
