//! The terminal while an answer comes: what is typed is not shown, and waits for the next prompt. And the
//! terminal as it was found, for whoever has it next.

/// How the terminal takes what is typed.
pub(crate) struct Modes {
    #[cfg(unix)]
    modes: Option<rustix::termios::Termios>,
}

impl Modes {
    #[cfg(unix)]
    pub(crate) fn now() -> Modes {
        Modes { modes: rustix::termios::tcgetattr(std::io::stdin()).ok() }
    }

    #[cfg(not(unix))]
    pub(crate) fn now() -> Modes {
        Modes {}
    }

    #[cfg(unix)]
    fn restore(&self) {
        use rustix::termios::{OptionalActions, tcsetattr};

        if let Some(modes) = &self.modes {
            // `Now`: what was typed ahead is not thrown away.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, modes);
        }
    }

    #[cfg(not(unix))]
    fn restore(&self) {}

    /// Takes the terminal from an editor that waits for keys and never returns.
    pub(crate) fn take_back(&self) {
        use std::io::Write;

        self.restore();
        // The editor asked to be told what is pasted; a terminal that is gone has nobody to tell.
        let mut stdout = std::io::stdout();
        let _ = stdout.write_all(b"\x1b[?2004l\r\n").and_then(|()| stdout.flush());
    }
}

/// What was typed and nobody has read yet, as text to go on with. Keys that are no text are gone.
#[cfg(unix)]
pub(crate) fn typed_ahead() -> String {
    let stdin = std::io::stdin();
    let waiting = rustix::io::ioctl_fionread(&stdin).ok().and_then(|count| usize::try_from(count).ok());
    let mut bytes = vec![0; waiting.unwrap_or(0)];
    if bytes.is_empty() {
        return String::new();
    }
    // It is there, so this does not wait.
    let count = rustix::io::read(&stdin, &mut bytes[..]).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..count]).replace('\r', "\n");
    let text = anstream::adapter::strip_str(&text).to_string();
    text.chars().filter(|key| *key == '\n' || !key.is_control()).collect::<String>().trim_end().to_owned()
}

#[cfg(not(unix))]
pub(crate) fn typed_ahead() -> String {
    String::new()
}

/// Keeps the terminal from showing what is typed, until it is dropped. Ctrl-C still interrupts.
pub(crate) struct Quiet(Modes);

impl Quiet {
    pub(crate) fn begin() -> Quiet {
        let found = Modes::now();
        #[cfg(unix)]
        if let Some(modes) = &found.modes {
            use rustix::termios::LocalModes;

            let mut quiet = modes.clone();
            quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            // Ctrl-C would throw away what was typed, and what we have written and the terminal has not shown
            // yet.
            quiet.local_modes.insert(LocalModes::NOFLSH);
            Modes { modes: Some(quiet) }.restore();
        }
        Quiet(found)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.0.restore();
    }
}
