//! Who ended a hold: on which surface, and which connection made the call.
//!
//! Must not know how the caller was found out. Not obvious: the caller is what the engine says of a connection, never what a
//! payload claims, so it names a connection and not a person.

/// Where a decision was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Surface {
    /// A person, through `approval::resolve`.
    Human,
    /// A worker that answers in a person's place.
    Answerer,
    /// The gate itself, because nobody may be asked.
    Policy,
    /// Nobody: the turn or session ended, a newer hold came, or nothing waited any more.
    Abort,
}

/// Who ended a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    /// Where the decision was made.
    pub surface: Surface,
    /// Who made it there: of a person's decision the calling connection, as the engine attests it; of an answerer's the
    /// function that was asked. `None` if nobody did, or the engine attested nothing.
    pub caller: Option<String>,
}

impl Decider {
    /// Nobody decided.
    pub const ABORT: Self = Self { surface: Surface::Abort, caller: None };
    /// The gate decided.
    pub const POLICY: Self = Self { surface: Surface::Policy, caller: None };

    /// A person decided, through this connection.
    pub const fn human(caller: Option<String>) -> Self {
        Self { surface: Surface::Human, caller }
    }

    /// This function decided.
    pub const fn answerer(function_id: String) -> Self {
        Self { surface: Surface::Answerer, caller: Some(function_id) }
    }
}
