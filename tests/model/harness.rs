//! The harness: turns, calls on their way, parked calls. It does one thing at a time in a session, and runs an
//! allowed call inside the request that allows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use approval_gate::hold::call_digest;
use approval_gate::wire::record::PendingApprovalRecord;

use crate::asking::{self, HookAnswer};
use crate::link::Reply;
use crate::script::SESSIONS;
use crate::world::World;

#[derive(Default)]
pub struct Harness {
    sessions: BTreeMap<String, Session>,
    /// How often the session in each place was deleted. Its follower has another id.
    deleted: [usize; SESSIONS],
    /// Every turn that is over: session and turn.
    pub over: Vec<(String, String)>,
}

#[derive(Default)]
struct Session {
    turn: u64,
    calls: BTreeMap<String, Call>,
    grants: Vec<String>,
}

/// In which place a session is or was.
fn place(session: &str) -> usize {
    session[1..2].parse().unwrap()
}

/// One call of the current turn.
#[derive(Clone)]
struct Call {
    about: About,
    parked: bool,
    done: bool,
}

/// A call as the hooks are told of it.
#[derive(Debug, Clone)]
pub struct About {
    pub session: String,
    pub turn: String,
    pub call: String,
    pub function: String,
    pub arguments: Value,
}

impl About {
    pub fn digest(&self) -> String {
        call_digest(&self.session, &self.turn, &self.call, &self.function, &self.arguments)
    }

    /// Whether this record holds this very call.
    pub fn is_held_by(&self, record: &PendingApprovalRecord) -> bool {
        record.is_of_call(&self.digest()) == Some(true)
    }

    pub fn row(&self) -> String {
        format!("{}/{}", self.session, self.call)
    }

    fn payload(&self) -> Value {
        json!({"session_id": self.session, "turn_id": self.turn, "depth": 0,
            "call": {"id": self.call, "function_id": self.function, "arguments": self.arguments}})
    }

    /// The root that the call needs and may not have.
    fn needs(&self) -> Option<&str> {
        self.arguments["root"].as_str().filter(|_| self.function.starts_with("shell::"))
    }
}

impl Harness {
    /// The id of the session in this place.
    pub fn session(&self, place: usize) -> String {
        format!("s{place}.{}", self.deleted[place])
    }

    /// Turn ids of the first two sessions are the same words; those of the third are its own, so that a notice about
    /// them need not name the session.
    pub fn turn(&self, session: usize) -> String {
        let number = self.sessions.get(&self.session(session)).map_or(0, |session| session.turn);
        let letter = if session == 2 { "u" } else { "t" };
        format!("{letter}{number}")
    }

    pub fn grants(&self, session: &str) -> Vec<String> {
        self.sessions.get(session).map(|session| session.grants.clone()).unwrap_or_default()
    }

    pub fn grant(&mut self, session: &str, root: &str) {
        self.sessions.entry(session.to_owned()).or_default().grants.push(root.to_owned());
    }

    /// The turn is over, and with it perhaps the session; says which.
    pub fn end_turn(&mut self, place: usize, deleted: bool) -> (String, String) {
        let (name, turn) = (self.session(place), self.turn(place));
        let session = self.sessions.entry(name.clone()).or_default();
        session.turn += 1;
        session.calls.clear();
        self.deleted[place] += usize::from(deleted);
        self.over.push((name.clone(), turn.clone()));
        (name, turn)
    }

    /// All parked calls of running turns.
    pub fn parked(&self) -> Vec<About> {
        let calls = self.sessions.values().flat_map(|session| session.calls.values());
        calls.filter(|call| call.parked).map(|call| call.about.clone()).collect()
    }

    fn is_running(&self, about: &About) -> bool {
        let place = place(&about.session);
        self.session(place) == about.session && self.turn(place) == about.turn
    }

    /// A call that is on its way already is not dispatched again, and another one may have its id only if no record
    /// of the first is left.
    fn begin(&mut self, about: &About, row_is_free: bool) -> bool {
        let calls = &mut self.sessions.entry(about.session.clone()).or_default().calls;
        let free = |call: &Call| call.done && (row_is_free || call.about.digest() == about.digest());
        if !calls.get(&about.call).is_none_or(free) {
            return false;
        }
        calls.insert(about.call.clone(), Call { about: about.clone(), parked: false, done: false });
        true
    }

    fn end(&mut self, about: &About, parked: bool) {
        if !self.is_running(about) {
            return;
        }
        let calls = self.sessions.get_mut(&about.session).map(|session| &mut session.calls);
        if let Some(call) = calls.and_then(|calls| calls.get_mut(&about.call)) {
            (call.parked, call.done) = (parked, !parked);
        }
    }

    /// The parked call, taken up.
    fn take(&mut self, session: &str, turn: &str, call: &str) -> Option<About> {
        let place = place(session);
        if self.session(place) != session || self.turn(place) != turn {
            return None;
        }
        let call = self.sessions.get_mut(session)?.calls.get_mut(call).filter(|call| call.parked)?;
        call.parked = false;
        Some(call.about.clone())
    }
}

/// The model asks for a function: the hooks, and what they answer. `again`: the harness died before it wrote the
/// answer down, and the step is delivered once more.
pub async fn dispatch(world: Arc<World>, session: usize, call: usize, target: (String, Value), again: bool) {
    let _turn = world.session_turns[session].lock().await;
    let (function, arguments) = target;
    let about = {
        let mut inner = world.inner();
        let (session_id, turn, call) =
            (inner.harness.session(session), inner.harness.turn(session), format!("c{call}"));
        let about = About { session: session_id, turn, call, function, arguments };
        // A decision under way names session, turn and call alone; a harness that gave the same three to another
        // call meanwhile would apply it there, and nobody in front of it could know.
        let undecided = !inner.history.is_being_decided(&about.session, &about.call);
        let row_is_free = inner.store.row("approval_pending", &about.row())["turn_id"] != about.turn.as_str();
        if !undecided || !inner.harness.begin(&about, row_is_free) {
            return;
        }
        about
    };
    let mut answer = asking::gate(&world, &about, about.payload()).await;
    if again && world.inner().harness.is_running(&about) {
        // Whatever the first answer was, the harness does not know it.
        world.inner().history.unanswered.insert(about.digest());
        world.pause("again", 40).await;
        if world.inner().harness.is_running(&about) {
            answer = asking::gate(&world, &about, about.payload()).await;
        }
    }
    match answer {
        HookAnswer::Continue => {
            let parked = execute(&world, &about, &[]).await;
            world.inner().harness.end(&about, parked);
        }
        HookAnswer::Hold => world.inner().harness.end(&about, true),
        HookAnswer::Stop => world.inner().harness.end(&about, false),
    }
}

/// Runs the target and asks the watch; says whether the call is parked.
async fn execute(world: &Arc<World>, about: &About, once: &[String]) -> bool {
    let long = if world.roll("long", 12) == 0 { 60_000 } else { 60 };
    world.pause("run", long).await;
    let Some(root) = about.needs() else { return false };
    // Access for this once does not always help: the release then fails as the call did before.
    let in_vain = world.roll("in vain", 3) == 0;
    let missing = {
        let inner = world.inner();
        let granted = inner.harness.grants(&about.session);
        let once = once.iter().filter(|_| !in_vain);
        inner.harness.is_running(about) && !granted.iter().chain(once).any(|known| known == root)
    };
    if !missing {
        return false;
    }
    let tail = json!({"v": 1, "requested_root": root, "attempted_path": root, "error_code": "S215"});
    let message = format!("{}: outside the jail filesystem_access_request={tail}", about.function);
    let mut payload = about.payload();
    payload["result"] = json!({"function_call_id": about.call, "function_id": about.function, "is_error": true,
        "content": [], "details": {"error": {"code": "S215", "message": message}}});
    asking::watch(world, about, payload).await == HookAnswer::Hold
}

/// `harness::function::resolve`.
pub async fn resolve(world: &Arc<World>, data: &Value) -> Reply {
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let (session, turn, call) = (text("session_id"), text("turn_id"), text("function_call_id"));
    let _turn = world.session_turns[place(&session)].lock().await;
    let Some(about) = world.inner().harness.take(&session, &turn, &call) else {
        return Ok(json!({"resolved": false, "turn_resumed": false}));
    };
    let allow = data["action"] == "execute";
    world.inner().history.took(&about, allow);
    if allow {
        let once = data["fs_scope"]["grants"].as_array().into_iter().flatten();
        let once: Vec<String> = once.filter_map(Value::as_str).map(str::to_owned).collect();
        let parked = execute(world, &about, &once).await;
        world.inner().harness.end(&about, parked);
    } else {
        world.inner().harness.end(&about, false);
    }
    Ok(json!({"resolved": true, "turn_resumed": true}))
}

/// The turn or the session ends: first in the harness, then the worker is told.
pub async fn end(world: Arc<World>, session: usize, deleted: bool, names_session: bool) {
    let (name, turn) = world.inner().harness.end_turn(session, deleted);
    if deleted {
        asking::session_deleted(&world, &name, &turn).await;
    } else {
        asking::turn_completed(&world, &name, &turn, names_session || session < 2).await;
    }
}
