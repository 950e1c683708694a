//! Terminal modes: input without echo while a response is displayed, type-ahead, and restoring the modes.

/// A snapshot of the terminal's input modes.
pub(crate) struct TerminalModes {
    #[cfg(unix)]
    modes: Option<rustix::termios::Termios>,
}

impl TerminalModes {
    #[cfg(unix)]
    pub(crate) fn current() -> TerminalModes {
        TerminalModes { modes: rustix::termios::tcgetattr(std::io::stdin()).ok() }
    }

    #[cfg(not(unix))]
    pub(crate) fn current() -> TerminalModes {
        TerminalModes {}
    }

    #[cfg(unix)]
    fn apply(&self) {
        use rustix::termios::{OptionalActions, tcsetattr};

        if let Some(modes) = &self.modes {
            // `Now` does not discard type-ahead.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, modes);
        }
    }

    #[cfg(not(unix))]
    fn apply(&self) {}

    /// Restores these modes while the line editor is still waiting for keys and cannot restore them itself.
    pub(crate) fn restore_from_editor(&self) {
        use std::io::Write;

        self.apply();
        // Turns off bracketed paste, which the editor has turned on. The terminal may be gone; ignore errors.
        let mut stdout = std::io::stdout();
        let _ = stdout.write_all(b"\x1b[?2004l\r\n").and_then(|()| stdout.flush());
    }
}

/// Reads the pending type-ahead as text. Keys that are not text are discarded.
#[cfg(unix)]
pub(crate) fn read_type_ahead() -> String {
    let stdin = std::io::stdin();
    let pending = rustix::io::ioctl_fionread(&stdin).ok().and_then(|count| usize::try_from(count).ok());
    let mut bytes = vec![0; pending.unwrap_or(0)];
    if bytes.is_empty() {
        return String::new();
    }
    // Does not block, because the bytes are available.
    let count = rustix::io::read(&stdin, &mut bytes[..]).unwrap_or(0);
    typed_text(&bytes[..count])
}

/// Returns typed keys as text. Keys that are not text are discarded.
#[cfg(unix)]
pub(crate) fn typed_text(keys: &[u8]) -> String {
    let text = String::from_utf8_lossy(keys).replace('\r', "\n");
    let text = anstream::adapter::strip_str(&text).to_string();
    text.chars().filter(|key| *key == '\n' || !key.is_control()).collect::<String>().trim_end().to_owned()
}

#[cfg(not(unix))]
pub(crate) fn read_type_ahead() -> String {
    String::new()
}

/// Turns off the echo of typed keys until it is dropped. Ctrl-C still interrupts.
pub(crate) struct NoEcho {
    previous: TerminalModes,
}

impl NoEcho {
    pub(crate) fn enable() -> NoEcho {
        let previous = TerminalModes::current();
        #[cfg(unix)]
        if let Some(modes) = &previous.modes {
            use rustix::termios::LocalModes;

            let mut modes = modes.clone();
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            // Otherwise Ctrl-C discards type-ahead and output that the terminal has not displayed yet.
            modes.local_modes.insert(LocalModes::NOFLSH);
            TerminalModes { modes: Some(modes) }.apply();
        }
        NoEcho { previous }
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        self.previous.apply();
    }
}
