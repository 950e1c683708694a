//! Runs `toolwire` under a real pseudo-terminal and reads its screen.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};

/// Maximum time to wait for a screen; generous, because the machine may be busy.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const ENTER: &str = "\r";
pub(crate) const ALT_ENTER: &str = "\x1b\r";
pub(crate) const TAB: &str = "\t";
pub(crate) const UP: &str = "\x1b[A";
pub(crate) const DOWN: &str = "\x1b[B";
pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const CTRL_R: &str = "\x12";
pub(crate) const CTRL_U: &str = "\x15";

/// A separate folder for each test, with its configuration and stored data.
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

    /// Writes `mcp.json`.
    pub(crate) fn configure(&self, config: serde_json::Value) {
        self.write("mcp.json", &config.to_string());
    }
}

/// The emulated screen, and whether the program has ended.
struct ScreenState {
    parser: vt100::Parser,
    has_ended: bool,
    /// Everything that the program has written.
    output: Vec<u8>,
}

/// A program on a terminal.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    screen: Arc<(Mutex<ScreenState>, Condvar)>,
    child: Child,
    /// The terminal modes before the program started.
    initial_modes: String,
    reader: Option<JoinHandle<()>>,
}

fn modes(pty: &Pty) -> String {
    let modes = rustix::termios::tcgetattr(pty).unwrap();
    format!("{:?} {:?} {:?}", modes.input_modes, modes.output_modes, modes.local_modes)
}

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

impl Terminal {
    /// Starts `toolwire chat` in this folder with these environment variables.
    pub(crate) fn start(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
        Terminal::run(home, &[&["chat"], arguments].concat(), variables)
    }

    /// Starts `toolwire` with these arguments.
    pub(crate) fn run(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
        Terminal::run_in_columns(80, home, arguments, variables)
    }

    /// Starts `toolwire` on a terminal of this width.
    pub(crate) fn run_in_columns(
        columns: u16,
        home: &Home,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Terminal {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(24, columns)).unwrap();
        let initial_modes = modes(&pty);
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"))
            .args(arguments)
            .current_dir(home.path())
            .env("HOME", home.path())
            .env("XDG_DATA_HOME", home.path().join("data"))
            .env("XDG_CONFIG_HOME", home.path().join("config"))
            .env("TERM", "xterm-256color");
        for name in ["NO_COLOR", "TOOLWIRE_CONFIG", "OPENAI_BASE_URL", "MCP_TOOL_PREFIX", "COLUMNS"] {
            command = command.env_remove(name);
        }
        // The terminal of the person who runs the tests may draw images.
        let terminal_variables =
            ["TERM_PROGRAM", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "LC_TERMINAL", "TMUX", "STY"];
        for name in terminal_variables.into_iter().chain(["TOOLWIRE_IMAGES"]) {
            command = command.env_remove(name);
        }
        for name in toolwire_testkit::api_key_variables() {
            command = command.env_remove(name);
        }
        let child = command.envs(variables.iter().copied()).spawn(pts).unwrap();
        let parser = vt100::Parser::new(size(24), size(columns), 500);
        let screen = Arc::new((
            Mutex::new(ScreenState { parser, has_ended: false, output: Vec::new() }),
            Condvar::new(),
        ));
        let pty = Arc::new(pty);
        let reader = thread::spawn({
            let (pty, screen) = (pty.clone(), screen.clone());
            move || read(&pty, &screen)
        });
        Terminal { pty, screen, child, initial_modes, reader: Some(reader) }
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

    /// Returns the terminal modes, such as echo and canonical input, as text.
    pub(crate) fn modes(&self) -> String {
        modes(&self.pty)
    }

    pub(crate) fn initial_modes(&self) -> String {
        self.initial_modes.clone()
    }

    fn state(&self) -> MutexGuard<'_, ScreenState> {
        self.screen.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.state().parser.screen_mut().set_size(size(rows), size(columns));
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// Returns the scrollback and the screen as text.
    pub(crate) fn screen(&self) -> String {
        text(&mut self.state().parser)
    }

    /// Returns everything that the program has written, with its escape sequences.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&self.state().output).into_owned()
    }

    /// Returns the first cell of the text, which must be on the screen and have only ASCII characters before
    /// it.
    #[track_caller]
    fn cell(&self, text: &str) -> vt100::Cell {
        let state = self.state();
        let screen = state.parser.screen();
        let (_, columns) = screen.size();
        let mut rows = screen.rows(0, columns.get()).enumerate();
        let place =
            rows.find_map(|(row, line)| Some((row, line.find(text)?))).expect("the text is on the screen");
        screen.cell(u16::try_from(place.0).unwrap(), u16::try_from(place.1).unwrap()).unwrap().clone()
    }

    /// Whether the text is dimmed.
    #[track_caller]
    pub(crate) fn is_dim(&self, text: &str) -> bool {
        self.cell(text).dim()
    }

    /// Returns the colour of the text.
    #[track_caller]
    pub(crate) fn colour(&self, text: &str) -> vt100::Color {
        self.cell(text).fgcolor()
    }

    /// Waits until the condition holds for the screen, and returns the screen.
    #[track_caller]
    pub(crate) fn wait_until(&self, expected: &str, condition: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + SCREEN_TIMEOUT;
        let mut state = self.state();
        loop {
            let screen = text(&mut state.parser);
            if condition(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!state.has_ended, "the program ended before {expected}:\n{screen}");
            assert!(
                !left.is_zero(),
                "no {expected} after {SCREEN_TIMEOUT:?} and {} bytes:\n{screen}",
                state.output.len()
            );
            state = self.screen.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the text is on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}`"), |screen| screen.contains(text))
    }

    /// Waits for a text that may be wrapped at its spaces, but not inside a word.
    #[track_caller]
    pub(crate) fn wait_for_words(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}`"), |screen| words(screen).contains(text))
    }

    /// Waits until the last line is an empty prompt.
    #[track_caller]
    pub(crate) fn wait_for_prompt(&self) -> String {
        self.wait_until("prompt", |screen| screen.trim_end().ends_with("\n>") || screen.trim() == ">")
    }

    /// Presses a key again and again until the program has ended, and returns its exit code.
    #[track_caller]
    pub(crate) fn press_until_end(&mut self, key: &str) -> Option<i32> {
        let deadline = Instant::now() + SCREEN_TIMEOUT;
        while !self.state().has_ended {
            assert!(Instant::now() < deadline, "the program has not ended:\n{}", self.screen());
            // The program may end before the key arrives.
            let _ = (&*self.pty).write_all(key.as_bytes());
            thread::sleep(Duration::from_millis(500));
        }
        self.wait_for_end()
    }

    /// Waits until the program has ended, and returns its exit code.
    #[track_caller]
    pub(crate) fn wait_for_end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + SCREEN_TIMEOUT;
        let mut state = self.state();
        while !state.has_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the program has not ended:\n{}", text(&mut state.parser));
            state = self.screen.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn read(pty: &Pty, screen: &(Mutex<ScreenState>, Condvar)) {
    let mut buffer = [0; 4_096];
    loop {
        // When the program ends, some systems report an error instead of the end of the stream.
        let count = Read::read(&mut &*pty, &mut buffer).unwrap_or(0);
        let mut state = screen.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.parser.process(&buffer[..count]);
        state.output.extend_from_slice(&buffer[..count]);
        state.has_ended = count == 0;
        let has_ended = state.has_ended;
        drop(state);
        screen.1.notify_all();
        if has_ended {
            return;
        }
    }
}

/// Joins the words of a screen with single spaces.
pub(crate) fn words(screen: &str) -> String {
    screen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the scrollback and the screen as text.
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
