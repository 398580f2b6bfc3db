//! Plays one script and judges it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use approval_gate::policy::Policy;

use crate::script::{CALLS, SESSIONS, Script, Step};
use crate::world::World;
use crate::{asking, harness, invariants};

/// Longer than anything waits for an answer that was lost: half an hour for an approved call.
const SETTLED: Duration = Duration::from_mins(40);

/// What the scripts reached, to see that they are worth something.
#[derive(Debug, Default)]
pub struct Tally {
    holds: usize,
    filesystem_holds: usize,
    ran: u64,
    events: usize,
    decisions: usize,
    taken: usize,
    grown: usize,
    crashes: u64,
    cuts: u64,
    /// What happened, as one number.
    pub course: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.holds += other.holds;
        self.filesystem_holds += other.filesystem_holds;
        self.ran += other.ran;
        self.events += other.events;
        self.decisions += other.decisions;
        self.taken += other.taken;
        self.grown += other.grown;
        self.crashes += other.crashes;
        self.cuts += other.cuts;
        self.course ^= other.course;
    }

    pub fn is_worth_something(&self) -> bool {
        [self.holds, self.filesystem_holds, self.events, self.decisions, self.taken, self.grown]
            .iter()
            .all(|count| *count >= 100)
    }
}

/// Plays it in virtual time; an error lists what was violated.
pub fn play(script: &Script, tracing: bool) -> Result<Tally, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(live_through(script, tracing))
}

async fn live_through(script: &Script, tracing: bool) -> Result<Tally, String> {
    let world = World::new(script.dice);
    world.inner().history.tracing = tracing;
    world.revive();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (step, pause) in &script.steps {
        world.inner().history.note(|| format!("--- {step:?} at {:?}", tokio::time::Instant::now()));
        act(&world, step).await;
        tokio::time::sleep(Duration::from_millis(*pause)).await;
    }
    world.inner().history.note(|| "--- settling".to_owned());
    world.inner().faults.calm();
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.revive();
    tokio::time::sleep(SETTLED).await;
    invariants::while_turns_run(&mut world.inner());
    world.inner().history.note(|| "--- ending".to_owned());
    end_everything(&world).await;
    tokio::time::sleep(SETTLED).await;
    invariants::when_all_is_over(&mut world.inner());
    nothing_is_left(&world);
    let inner = world.inner();
    let history = &inner.history;
    if !history.violations.is_empty() {
        return Err(history.violations.join("\n"));
    }
    Ok(Tally {
        holds: history.holds.len(),
        filesystem_holds: history.holds.values().filter(|hold| hold.filesystem).count(),
        ran: history.runs,
        events: history.heard.len(),
        decisions: history.decisions.len(),
        taken: history.decisions.iter().filter(|decision| decision.took).count(),
        grown: history.grown.len(),
        crashes: history.crashes,
        cuts: history.cuts,
        course: history.course,
    })
}

/// The worker keeps nothing of what is over.
fn nothing_is_left(world: &Arc<World>) {
    let Some((worker, _)) = world.serving() else {
        world.inner().history.violated("not-serving: the worker does not serve again".to_owned());
        return;
    };
    let counts = worker.context.inbox.counts();
    if counts != [0; 5] {
        world
            .inner()
            .history
            .violated(format!("leak: locks, decisions, writes, markers, tasks are left: {counts:?}"));
    }
}

/// Every turn that ever was is told to be over.
async fn end_everything(world: &Arc<World>) {
    let over = {
        let mut inner = world.inner();
        for place in 0..SESSIONS {
            inner.harness.end_turn(place, false);
        }
        inner.harness.over.clone()
    };
    for (session, turn) in over {
        asking::turn_completed(world, &session, &turn, true).await;
    }
}

async fn act(world: &Arc<World>, step: &Step) {
    let clone = || Arc::clone(world);
    let session_name = |place| world.inner().harness.session(place);
    match *step {
        Step::Call { session, call, function, variant, again } => {
            let target = target(function, variant);
            tokio::spawn(harness::dispatch(clone(), session, call, target, again));
        }
        Step::Decide { session, call, aimed, allow, duration, opposed } => {
            let parked = if aimed { world.inner().harness.parked() } else { Vec::new() };
            let (session_id, call_id) = match parked.get((session * CALLS + call) % parked.len().max(1)) {
                Some(about) => (about.session.clone(), about.call.clone()),
                None => (session_name(session), format!("c{call}")),
            };
            tokio::spawn(asking::decision(clone(), session_id.clone(), call_id.clone(), allow, duration));
            if opposed {
                tokio::spawn(asking::decision(clone(), session_id, call_id, !allow, duration));
            }
        }
        Step::EndTurn { session, names_session } => {
            tokio::spawn(harness::end(clone(), session, false, names_session));
        }
        Step::DeleteSession { session } => {
            tokio::spawn(harness::end(clone(), session, true, true));
        }
        Step::Grow { session, changes } => grow(world, session, changes),
        Step::SetMode { session, mode } => {
            let mode = ["manual", "auto", "full"][mode];
            tokio::spawn(asking::set_mode(clone(), session_name(session), mode));
        }
        Step::ClearSettings { session } => {
            tokio::spawn(asking::clear_settings(clone(), session_name(session)));
        }
        Step::Configure { value, noticed } => {
            world.inner().configuration = configuration(value);
            if noticed {
                tokio::spawn(asking::config_changed(clone()));
            }
        }
        Step::Trouble { peer, trouble } => world.inner().faults.set(peer, trouble),
        Step::Freeze { ms } => freeze(world, ms),
        Step::Cut { ms } => cut(world, ms),
        Step::Crash { ms } => crash(world, ms),
        Step::Wait { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
    }
}

fn target(function: usize, variant: usize) -> (String, serde_json::Value) {
    let function = ["shell::run", "app::read", "app::write", "shell::read"][function];
    let arguments = match variant {
        0 => json!({"plain": true}),
        number => json!({"root": format!("/data/{number}")}),
    };
    (function.to_owned(), arguments)
}

fn configuration(value: usize) -> serde_json::Value {
    match value {
        0 => Policy::shipped_value(),
        1 => json!({"default_mode": "auto", "rules": ["app::read", "!approval::*"]}),
        2 => json!({"default_mode": "manual", "rules": ["!app::write"], "grant_reask_limit": 1}),
        3 => json!({"rules": ["!!app::read"]}),
        _ => json!({"default_mode": "full", "rules": ["!approval::*"]}),
    }
}

fn grow(world: &Arc<World>, session: usize, changes: usize) {
    let name = world.inner().harness.session(session);
    for number in 0..changes {
        let function = format!("app::k{}", world.inner().history.tick());
        let function = if number == 3 { "app::write".to_owned() } else { function };
        let list = ["approval::approve-always", "approval::add-always-allow"][number % 2];
        tokio::spawn(asking::grow(Arc::clone(world), name.clone(), function, list));
    }
}

fn freeze(world: &Arc<World>, ms: u64) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        let _turn = world.state_turn.lock().await;
        tokio::time::sleep(Duration::from_millis(ms)).await;
    });
}

fn cut(world: &Arc<World>, ms: u64) {
    let worker = world.inner().worker.clone();
    if let Some(link) = worker.and_then(|worker| worker.engine.link()) {
        link.cut();
        world.inner().history.cuts += 1;
    }
    world.revive_after(ms);
}

fn crash(world: &Arc<World>, ms: u64) {
    let worker = world.inner().worker.take();
    if let Some(worker) = worker {
        worker.engine.kill();
        if let Some(link) = worker.engine.link() {
            link.cut();
        }
        world.inner().history.crashed(worker.engine.generation);
    }
    world.revive_after(ms);
}
