//! The keys that mean something, and how a terminal sends them.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// One line up; also `k` where no text is typed.
    Up,
    /// One line down.
    Down,
    /// Back.
    Left,
    /// Into.
    Right,
    /// Some lines up.
    PageUp,
    /// Some lines down.
    PageDown,
    /// To the start.
    Home,
    /// To the end.
    End,
    /// Do.
    Enter,
    /// Leave.
    Escape,
    /// One character less.
    Backspace,
    /// The whole line less.
    ClearLine,
    /// The end of it all.
    Interrupt,
}

impl Key {
    /// What a terminal's key means. Letters stand in for arrows unless `in_text`.
    pub fn of(event: KeyEvent, in_text: bool) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        if event.modifiers.contains(KeyModifiers::CONTROL) {
            return match event.code {
                KeyCode::Char('c' | 'd') => Some(Self::Interrupt),
                KeyCode::Char('u') => Some(Self::ClearLine),
                KeyCode::Char('h') => Some(Self::Backspace),
                _ => None,
            };
        }
        if event.modifiers.contains(KeyModifiers::ALT) {
            return None;
        }
        Some(match event.code {
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Escape,
            KeyCode::Backspace => Self::Backspace,
            KeyCode::Char('j') if !in_text => Self::Down,
            KeyCode::Char('k') if !in_text => Self::Up,
            KeyCode::Char('g') if !in_text => Self::Home,
            KeyCode::Char('G') if !in_text => Self::End,
            KeyCode::Char(c) => Self::Char(c),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_arrows_only_where_no_text_is_typed() {
        let key = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        assert_eq!(Key::of(key('j'), false), Some(Key::Down));
        assert_eq!(Key::of(key('j'), true), Some(Key::Char('j')));
        assert_eq!(Key::of(key('a'), false), Some(Key::Char('a')));
    }

    #[test]
    fn a_modified_letter_is_never_the_letter() {
        for modifier in [KeyModifiers::CONTROL, KeyModifiers::ALT] {
            assert_eq!(Key::of(KeyEvent::new(KeyCode::Char('a'), modifier), false), None);
        }
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(Key::of(interrupt, true), Some(Key::Interrupt));
        let released = KeyEvent::new_with_kind(KeyCode::Char('a'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(Key::of(released, false), None);
    }
}
