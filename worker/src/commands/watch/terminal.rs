//! The terminal: taken over, painted, and given back whatever happens.
//!
//! Only lines that changed are written, so that a slow connection carries little. Line wrapping is off while we have the
//! screen: where a terminal counts a character wider than we do, the line is cut instead of running into the next.

use std::io::{self, BufWriter, Stdout, Write as _};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    self, Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};

use super::view::{Frame, Line, Tone};
use crate::commands::text::colours_wanted;

/// The terminal while the watch has it. Given back when dropped.
pub struct Terminal {
    out: BufWriter<Stdout>,
    shown: Vec<Line>,
    tones: bool,
}

impl Terminal {
    /// Takes it over.
    pub fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        // From here on `drop` gives it back, also if the next line fails.
        let mut terminal =
            Self { out: BufWriter::new(io::stdout()), shown: Vec::new(), tones: colours_wanted() };
        execute!(terminal.out, EnterAlternateScreen, DisableLineWrap, EnableBracketedPaste, Hide)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub fn size() -> (usize, usize) {
        terminal::size().map_or((80, 24), |(columns, lines)| (usize::from(columns), usize::from(lines)))
    }

    /// What is on the screen is not known any more: the next frame is painted whole.
    pub fn forget(&mut self) {
        self.shown.clear();
    }

    /// Shows a frame.
    pub fn paint(&mut self, frame: Frame) -> io::Result<()> {
        if self.shown.len() != frame.lines.len() {
            queue!(self.out, SetAttribute(Attribute::Reset), Clear(ClearType::All))?;
            self.shown.clear();
        }
        queue!(self.out, Hide)?;
        for (row, line) in frame.lines.iter().enumerate() {
            if self.shown.get(row) != Some(line) {
                self.line(row, line)?;
            }
        }
        if let Some((column, row)) = frame.cursor {
            queue!(self.out, MoveTo(short(column), short(row)), Show)?;
        }
        self.shown = frame.lines;
        self.out.flush()
    }

    fn line(&mut self, row: usize, (tone, text): &Line) -> io::Result<()> {
        queue!(self.out, MoveTo(0, short(row)), Clear(ClearType::CurrentLine))?;
        let attribute = match tone {
            _ if !self.tones => None,
            Tone::Plain => None,
            Tone::Strong | Tone::Alarm => Some(Attribute::Bold),
            Tone::Faint => Some(Attribute::Dim),
            Tone::Selected => Some(Attribute::Reverse),
        };
        match attribute {
            None => queue!(self.out, Print(text)),
            Some(attribute) => {
                queue!(self.out, SetAttribute(attribute), Print(text), SetAttribute(Attribute::Reset))
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = execute!(self.out, Show, DisableBracketedPaste, EnableLineWrap, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
