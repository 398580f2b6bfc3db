//! What a script is made of, and how scripts are made. Plain data; `run` gives it meaning.

use proptest::prelude::*;

/// Whose answers are troubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    State,
    Configuration,
    Harness,
    Sessions,
}

/// How.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Prompt and certain.
    Calm,
    /// Every leg takes up to a second, so that answers overtake each other.
    Slow,
    /// Answers come after most callers have given up.
    Late,
    /// The request takes effect, and one answer in four never comes.
    Lossy,
    /// One in four is refused before it takes effect, one in eight after.
    Failing,
    /// Everything is refused.
    Down,
}

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// The model asks for a function; `again` delivers the hook twice, as after a crash of the harness before it wrote
    /// the answer down.
    Call { session: usize, call: usize, function: usize, variant: usize, again: bool },
    /// A person decides, perhaps two persons at once and against each other. `aimed`: on a call that is parked, if there
    /// is one.
    Decide { session: usize, call: usize, aimed: bool, allow: bool, duration: usize, opposed: bool },
    /// The turn ends.
    EndTurn { session: usize, names_session: bool },
    /// The session is deleted.
    DeleteSession { session: usize },
    /// Several settings changes at once.
    Grow { session: usize, changes: usize },
    /// The mode is set.
    SetMode { session: usize, mode: usize },
    /// The settings are cleared.
    ClearSettings { session: usize },
    /// The stored configuration changes.
    Configure { value: usize, noticed: bool },
    /// A peer's behaviour changes.
    Trouble { peer: Peer, trouble: Trouble },
    /// The state worker stops for a while and then does everything that came meanwhile, in order.
    Freeze { ms: u64 },
    /// The connection is lost and comes back.
    Cut { ms: u64 },
    /// The worker dies and is started again.
    Crash { ms: u64 },
    /// Nothing, for a while.
    Wait { ms: u64 },
}

/// One script: the steps, each with the pause after it in milliseconds, and what decides all delays and faults.
#[derive(Debug, Clone)]
pub struct Script {
    pub dice: u64,
    pub steps: Vec<(Step, u64)>,
}

pub const SESSIONS: usize = 3;
pub const CALLS: usize = 2;

/// Scripts of this many steps.
pub fn scripts(steps: usize) -> impl Strategy<Value = Script> {
    let pause = prop_oneof![5 => 0u64..12, 2 => 12u64..80, 1 => 80u64..700];
    let steps = proptest::collection::vec((step(), pause), steps);
    (any::<u64>(), steps).prop_map(|(dice, steps)| Script { dice, steps })
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..SESSIONS;
    let call = 0..CALLS;
    prop_oneof![
        18 => (session.clone(), call.clone(), 0..4usize, 0..3usize, prop::bool::weighted(0.2)).prop_map(
            |(session, call, function, variant, again)| Step::Call { session, call, function, variant, again }
        ),
        11 => (session.clone(), call, prop::bool::weighted(0.6), any::<bool>(), 0..4usize, prop::bool::weighted(0.25))
            .prop_map(|(session, call, aimed, allow, duration, opposed)| {
                Step::Decide { session, call, aimed, allow, duration, opposed }
            }),
        4 => (session.clone(), any::<bool>())
            .prop_map(|(session, names_session)| Step::EndTurn { session, names_session }),
        1 => session.clone().prop_map(|session| Step::DeleteSession { session }),
        3 => (session.clone(), 1..5usize).prop_map(|(session, changes)| Step::Grow { session, changes }),
        2 => (session.clone(), 0..3usize).prop_map(|(session, mode)| Step::SetMode { session, mode }),
        1 => session.prop_map(|session| Step::ClearSettings { session }),
        2 => (0..5usize, prop::bool::weighted(0.9))
            .prop_map(|(value, noticed)| Step::Configure { value, noticed }),
        4 => (peer(), trouble()).prop_map(|(peer, trouble)| Step::Trouble { peer, trouble }),
        1 => (10u64..12_000).prop_map(|ms| Step::Freeze { ms }),
        2 => (0u64..3_000).prop_map(|ms| Step::Cut { ms }),
        2 => (500u64..3_000).prop_map(|ms| Step::Crash { ms }),
        3 => (0u64..12_000).prop_map(|ms| Step::Wait { ms }),
    ]
}

fn peer() -> impl Strategy<Value = Peer> {
    prop_oneof![
        4 => Just(Peer::State),
        1 => Just(Peer::Configuration),
        3 => Just(Peer::Harness),
        1 => Just(Peer::Sessions),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        3 => Just(Trouble::Calm),
        2 => Just(Trouble::Slow),
        1 => Just(Trouble::Late),
        2 => Just(Trouble::Lossy),
        2 => Just(Trouble::Failing),
        1 => Just(Trouble::Down),
    ]
}
