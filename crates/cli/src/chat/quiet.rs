//! The terminal while an answer comes: what is typed is not shown, and waits for the next prompt.

/// Keeps the terminal from showing what is typed, until it is dropped. Ctrl-C still interrupts.
pub(crate) struct Quiet {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Quiet {
    #[cfg(unix)]
    pub(crate) fn begin() -> Quiet {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(before) = &before {
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            // Ctrl-C would throw away what was typed, and what we have written and the terminal has not shown yet.
            quiet.local_modes.insert(LocalModes::NOFLSH);
            // `Now`: what was typed ahead is not thrown away.
            let _ = tcsetattr(&stdin, OptionalActions::Now, &quiet);
        }
        Quiet { before }
    }

    #[cfg(not(unix))]
    pub(crate) fn begin() -> Quiet {
        Quiet {}
    }
}

#[cfg(unix)]
impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let now = rustix::termios::OptionalActions::Now;
            let _ = rustix::termios::tcsetattr(std::io::stdin(), now, before);
        }
    }
}
