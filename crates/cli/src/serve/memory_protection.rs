//! Prevents other processes from reading the memory of the gateway, which contains the keys of clients and
//! providers.

/// Turns off core dumps. On Linux, other processes of the same user can then neither read the memory and the
/// environment, nor attach a debugger. Returns what could not be turned off.
pub(super) fn apply() -> Vec<&'static str> {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut failed = Vec::new();
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        if setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).is_err() {
            failed.push("core dumps could not be turned off");
        }
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err() {
            failed.push("the memory of the process could not be protected from other processes");
        }
    }
    failed
}
