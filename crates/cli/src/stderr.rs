//! Standard error, shared between lines that are redrawn, the prompt of the chat, and everything else that is
//! printed.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::MultiProgress;
use rustyline::ExternalPrinter;

/// The lines that are being redrawn.
struct LiveLines(Mutex<Option<MultiProgress>>);

static LIVE_LINES: LiveLines = LiveLines(Mutex::new(None));

impl LiveLines {
    fn set(&self, lines: Option<MultiProgress>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lines;
    }

    /// Runs `write` while no line is drawn.
    fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match lines {
            Some(lines) => lines.suspend(write),
            None => write(),
        }
    }
}

/// Registers live lines: until [`release`], they are hidden while text is printed.
pub(crate) fn share(lines: &MultiProgress) {
    LIVE_LINES.set(Some(lines.clone()));
}

pub(crate) fn release() {
    LIVE_LINES.set(None);
}

/// Prints above the prompt of a line editor.
pub(crate) type PromptPrinter = Box<dyn ExternalPrinter + Send>;

static PROMPT: Mutex<Option<PromptPrinter>> = Mutex::new(None);

/// Registers the prompt of the line editor: from now on, text on the same terminal is printed above it.
pub(crate) fn share_prompt(printer: PromptPrinter) {
    if io::stderr().is_terminal() {
        *PROMPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(printer);
    }
}

/// Prints to standard error, without colours if they are disabled or unsupported. Live lines are hidden
/// meanwhile.
pub(crate) fn print(text: &[u8]) -> io::Result<()> {
    if let Some(printer) = PROMPT.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        return printer.print(String::from_utf8_lossy(text).into_owned()).map_err(io::Error::other);
    }
    LIVE_LINES.suspend(|| anstream::stderr().lock().write_all(text))
}

/// [`print`] as a writer.
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        print(text).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

    use super::*;

    /// A terminal in memory: its rows and the row of the cursor.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<(Vec<String>, usize)>>);

    impl Terminal {
        fn rows(&self) -> Vec<String> {
            let (rows, _) = &*self.0.lock().expect("the lock is not poisoned");
            rows.iter().filter(|row| !row.trim().is_empty()).map(|row| row.trim_end().to_owned()).collect()
        }

        /// Changes the rows or the cursor, then adds rows down to the cursor.
        fn change(&self, change: impl FnOnce(&mut Vec<String>, &mut usize)) -> io::Result<()> {
            let (rows, row) = &mut *self.0.lock().expect("the lock is not poisoned");
            change(rows, row);
            let row_count = rows.len().max(*row + 1);
            rows.resize(row_count, String::new());
            Ok(())
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, count: usize) -> io::Result<()> {
            self.change(|_, row| *row = row.saturating_sub(count))
        }
        fn move_cursor_down(&self, count: usize) -> io::Result<()> {
            self.change(|_, row| *row += count)
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)?;
            self.change(|_, row| *row += 1)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.change(|_, _| ())?;
            self.change(|rows, row| rows[*row].push_str(text))
        }
        fn clear_line(&self) -> io::Result<()> {
            self.change(|_, _| ())?;
            self.change(|rows, row| rows[*row].clear())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn printed_text_is_not_drawn_over() {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let lines = MultiProgress::with_draw_target(target);
        // Not the static one, which other tests may use at the same time.
        let live_lines = LiveLines(Mutex::new(Some(lines.clone())));
        let style = ProgressStyle::with_template("{msg}").expect("a valid template");
        let line = lines.add(ProgressBar::new_spinner().with_style(style).with_message("connecting"));
        line.tick();
        live_lines.suspend(|| terminal.write_line("open https://example.com/").expect("a write to memory"));
        line.set_message("still connecting");
        line.tick();
        assert_eq!(terminal.rows(), ["open https://example.com/", "still connecting"]);
    }
}
