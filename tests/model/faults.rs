//! What befalls one request: how long each leg takes, whether it is refused, whether its answer is lost.
//!
//! Every fate comes from the script's dice, the function and how often it was called, so that leaving a step out of a
//! script changes as little as possible in the rest of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::script::{Peer, Trouble};

/// The fate of one request.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    pub refused_before: bool,
    pub refused_after: bool,
    pub answer_lost: bool,
    pub working: Duration,
    pub back: Duration,
}

/// Decides fates.
pub struct Faults {
    dice: u64,
    rolls: BTreeMap<String, u64>,
    state: Trouble,
    configuration: Trouble,
    harness: Trouble,
    sessions: Trouble,
}

impl Faults {
    pub fn new(dice: u64) -> Self {
        let calm = Trouble::Calm;
        Self { dice, rolls: BTreeMap::new(), state: calm, configuration: calm, harness: calm, sessions: calm }
    }

    pub fn set(&mut self, peer: Peer, trouble: Trouble) {
        match peer {
            Peer::State => self.state = trouble,
            Peer::Configuration => self.configuration = trouble,
            Peer::Harness => self.harness = trouble,
            Peer::Sessions => self.sessions = trouble,
        }
    }

    pub fn calm(&mut self) {
        for peer in [Peer::State, Peer::Configuration, Peer::Harness, Peer::Sessions] {
            self.set(peer, Trouble::Calm);
        }
    }

    /// A number below `below`, for this purpose.
    pub fn roll(&mut self, purpose: &str, below: u64) -> u64 {
        let count = self.rolls.entry(purpose.to_owned()).or_default();
        *count += 1;
        let mut mixed = self.dice ^ count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in purpose.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    pub fn ms(&mut self, purpose: &str, below: u64) -> Duration {
        Duration::from_millis(self.roll(purpose, below))
    }

    pub fn fate(&mut self, function: &str) -> Fate {
        let trouble = match function.split("::").next() {
            Some("state") => self.state,
            Some("configuration") => self.configuration,
            Some("harness") => self.harness,
            _ => self.sessions,
        };
        let luck = self.roll(function, 8);
        // A request that is worked on for longer than the inbox watches for late writes is beyond what can be kept.
        let (working, back) = match trouble {
            Trouble::Calm | Trouble::Lossy | Trouble::Failing | Trouble::Down => (4, 3),
            Trouble::Slow => (300, 900),
            Trouble::Late => (300, 12_000),
        };
        Fate {
            refused_before: trouble == Trouble::Down || (trouble == Trouble::Failing && luck < 2),
            refused_after: trouble == Trouble::Failing && luck == 2,
            answer_lost: trouble == Trouble::Lossy && luck < 2,
            working: self.ms(function, working),
            back: self.ms(function, back),
        }
    }
}
