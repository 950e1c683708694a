//! `toolwire chat` under a real pseudo-terminal, with a screen that can be read.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};

/// How long a screen is waited for before the test fails. A loaded machine may need long; nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const ENTER: &str = "\r";
pub(crate) const ALT_ENTER: &str = "\x1b\r";
pub(crate) const TAB: &str = "\t";
pub(crate) const UP: &str = "\x1b[A";
pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";

/// A folder of its own for each test: what is kept, what is configured.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data").join("toolwire")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }
}

/// What the terminal shows, and whether the program has ended.
struct Shown {
    parser: vt100::Parser,
    has_ended: bool,
    /// Everything that was written, for the message of a failure.
    bytes: usize,
}

/// A chat on a terminal.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    shown: Arc<(Mutex<Shown>, Condvar)>,
    child: Child,
    /// How the terminal took keys before the program had it.
    before: String,
    reading: Option<JoinHandle<()>>,
}

fn modes(pty: &Pty) -> String {
    let modes = rustix::termios::tcgetattr(pty).unwrap();
    format!("{:?} {:?} {:?}", modes.input_modes, modes.output_modes, modes.local_modes)
}

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

impl Terminal {
    /// `toolwire chat` in this folder, with these variables.
    pub(crate) fn start(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
        Terminal::run(home, &[&["chat"], arguments].concat(), variables)
    }

    /// `toolwire` with these arguments.
    pub(crate) fn run(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let before = modes(&pty);
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"))
            .args(arguments)
            .current_dir(home.path())
            .env("HOME", home.path())
            .env("XDG_DATA_HOME", home.path().join("data"))
            .env("XDG_CONFIG_HOME", home.path().join("config"))
            .env("TERM", "xterm-256color");
        for name in
            ["NO_COLOR", "TOOLWIRE_CONFIG", "OPENAI_BASE_URL", "OPENAI_API_KEY", "MCP_TOOL_PREFIX", "COLUMNS"]
        {
            command = command.env_remove(name);
        }
        let child = command.envs(variables.iter().copied()).spawn(pts).unwrap();
        let parser = vt100::Parser::new(size(24), size(80), 500);
        let shown = Arc::new((Mutex::new(Shown { parser, has_ended: false, bytes: 0 }), Condvar::new()));
        let pty = Arc::new(pty);
        let reading = thread::spawn({
            let (pty, shown) = (pty.clone(), shown.clone());
            move || read(&pty, &shown)
        });
        Terminal { pty, shown, child, before, reading: Some(reading) }
    }

    pub(crate) fn send(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and sends it.
    pub(crate) fn enter(&self, text: &str) {
        self.send(text);
        self.send(ENTER);
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let kill = std::process::Command::new("kill").args(["-s", name, &process]).status().unwrap();
        assert!(kill.success());
    }

    /// How the terminal takes keys: line by line or one by one, shown or not.
    pub(crate) fn modes(&self) -> String {
        modes(&self.pty)
    }

    pub(crate) fn modes_before(&self) -> String {
        self.before.clone()
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.shown
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .parser
            .screen_mut()
            .set_size(size(rows), size(columns));
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// The screen as text, with what has scrolled out of it above.
    pub(crate) fn screen(&self) -> String {
        text(&mut self.shown.0.lock().unwrap_or_else(PoisonError::into_inner).parser)
    }

    /// Whether the text, which must be on the screen, is written dimly.
    #[track_caller]
    pub(crate) fn is_dim(&self, text: &str) -> bool {
        let shown = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        let screen = shown.parser.screen();
        let (_, columns) = screen.size();
        let rows: Vec<String> = screen.rows(0, columns.get()).collect();
        let row = rows.iter().position(|row| row.starts_with(text)).expect("it begins a line of the screen");
        screen.cell(u16::try_from(row).unwrap(), 0).is_some_and(vt100::Cell::dim)
    }

    /// Waits until the screen is as wanted, and gives it.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut shown = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let screen = text(&mut shown.parser);
            if is_so(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!shown.has_ended, "the program ended before {what}:\n{screen}");
            assert!(!left.is_zero(), "no {what} after {PATIENCE:?} and {} bytes:\n{screen}", shown.bytes);
            shown = self.shown.1.wait_timeout(shown, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the text is on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, wanted: &str) -> String {
        self.wait(&format!("`{wanted}`"), |screen| screen.contains(wanted))
    }

    /// Waits until the prompt is the last line, with nothing behind it.
    #[track_caller]
    pub(crate) fn wait_for_prompt(&self) -> String {
        self.wait("prompt", |screen| screen.trim_end().ends_with("\n>") || screen.trim() == ">")
    }

    /// Waits until the program has ended, and gives its exit code.
    #[track_caller]
    pub(crate) fn wait_for_end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        let mut shown = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !shown.has_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it has not ended:\n{}", text(&mut shown.parser));
            shown = self.shown.1.wait_timeout(shown, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(shown);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
    }
}

fn read(pty: &Pty, shown: &(Mutex<Shown>, Condvar)) {
    let mut buffer = [0; 4_096];
    loop {
        // The end of the program closes the other side, which some systems tell as an error.
        let count = Read::read(&mut &*pty, &mut buffer).unwrap_or(0);
        let mut state = shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.parser.process(&buffer[..count]);
        state.bytes += count;
        state.has_ended = count == 0;
        let has_ended = state.has_ended;
        drop(state);
        shown.1.notify_all();
        if has_ended {
            return;
        }
    }
}

/// What has scrolled away, then what is on the screen.
fn text(parser: &mut vt100::Parser) -> String {
    let screen = parser.screen_mut();
    let (_, columns) = screen.size();
    let mut lines: Vec<String> = Vec::new();
    screen.set_scrollback(usize::MAX);
    let mut left = screen.scrollback();
    while left > 0 {
        screen.set_scrollback(left);
        lines.extend(screen.rows(0, columns.get()).next());
        left -= 1;
    }
    screen.set_scrollback(0);
    lines.extend(screen.rows(0, columns.get()));
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n")
}
