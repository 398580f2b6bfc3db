//! The engine as the worker sees it. A call is a frame on the connection, a request that is worked on, and an answer
//! that may not come. A dead worker's calls never return and its events go nowhere, which is what a crash between two
//! polls looks like from outside.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::time::Instant;

use approval_gate::clock::Deadline;
use approval_gate::iii::{Answer, CallError, ErrorBody, Fire, Invocation};
use approval_gate::siblings::{BoxFuture, Engine};
use approval_gate::wire::harness::{FILESYSTEM_GRANT, FILESYSTEM_GRANTS, FUNCTION_RESOLVE};

use crate::harness;
use crate::history::Sent;
use crate::link::{Link, Reply};
use crate::world::World;

pub struct SimulatedEngine {
    pub world: Arc<World>,
    pub generation: u64,
    dead: AtomicBool,
    link: Mutex<Option<Arc<Link>>>,
}

impl SimulatedEngine {
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            generation: world.new_generation(),
            dead: AtomicBool::new(false),
            link: Mutex::default(),
        })
    }

    pub fn kill(&self) {
        self.dead.store(true, Ordering::Release);
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    pub fn attach(&self, link: Arc<Link>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
    }

    pub fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|link| link.is_up())
    }

    async fn ask(&self, function: &str, data: &Value, deadline: Deadline) -> Result<Answer, CallError> {
        let Some(link) = self.link() else { return Err(CallError::NotConnected) };
        let (world, began) = (&self.world, Instant::now());
        let (call, answered) = link.wait_for_answer();
        let transit = world.inner().faults.ms("transit", 3);
        let request = Request {
            world: Arc::clone(world),
            generation: self.generation,
            arrival: link.sends(transit),
            link: Arc::clone(&link),
            call,
            function: function.to_owned(),
            data: data.clone(),
        };
        tokio::spawn(request.serve());
        let function_id = || function.to_owned();
        match tokio::time::timeout_at(deadline.instant(), answered).await {
            Ok(Ok(Ok(value))) => Ok(Answer::new(function, to_raw_value(&value).ok())),
            Ok(Ok(Err(ErrorBody { code, message }))) => {
                Err(CallError::Refused { function_id: function_id(), code, message })
            }
            Ok(Err(_)) => Err(CallError::ConnectionLost { function_id: function_id() }),
            Err(_) => {
                let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                Err(CallError::Deadline { function_id: function_id(), waited_ms })
            }
        }
    }
}

impl Engine for SimulatedEngine {
    fn call<'a>(
        &'a self,
        function_id: &'a str,
        data: &'a Value,
        deadline: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        Box::pin(async move {
            if self.is_dead() {
                return pending().await;
            }
            let sent = self.note(function_id, data);
            let result = self.ask(function_id, data, deadline).await;
            if self.is_dead() {
                return pending().await;
            }
            let now_ms = self.world.now_ms();
            let mut inner = self.world.inner();
            inner.history.went_on(now_ms, function_id, data, result.is_ok());
            inner.history.note(|| {
                let how = result.as_ref().map_or_else(ToString::to_string, |answer| {
                    answer.value().unwrap_or_default().to_string().chars().take(160).collect()
                });
                let data: String = data.to_string().chars().take(160).collect();
                format!("  g{} {function_id} {data} -> {how}", self.generation)
            });
            inner.history.answered(sent, &result);
            drop(inner);
            result
        })
    }

    fn fire(&self, event: &Fire<'_>) -> Result<(), CallError> {
        if self.is_dead() {
            return Ok(());
        }
        let link = self.link().ok_or(CallError::NotConnected)?;
        let world = Arc::clone(&self.world);
        let arrival = link.sends(world.inner().faults.ms("fire", 3));
        let created = event.function_id == "listener::created";
        let audit = event.function_id == "listener::audit";
        let payload: Value = serde_json::from_str(event.data.get()).unwrap_or_default();
        world.inner().history.note(|| format!("  fires {} {payload}", event.function_id));
        let told = if created { world.inner().history.told_of(&payload) } else { None };
        tokio::spawn(async move {
            tokio::time::sleep_until(arrival).await;
            if link.lost() {
                return;
            }
            let history = &mut world.inner().history;
            if audit { history.audited(&payload) } else { history.heard(created, told, &payload) }
        });
        Ok(())
    }

    fn connection(&self) -> u64 {
        self.link().map_or(0, |link| link.number)
    }

    fn now_ms(&self) -> i64 {
        self.world.now_ms()
    }
}

impl SimulatedEngine {
    /// Decisions and fetches are judged by when they were sent.
    fn note(&self, function: &str, data: &Value) -> Option<Sent> {
        let mut inner = self.world.inner();
        let link = self.link()?.number;
        match function {
            FUNCTION_RESOLVE => {
                let key = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
                let (session, turn, call) = (key("session_id"), key("turn_id"), key("function_call_id"));
                let row = inner.store.row("approval_pending", &format!("{session}/{call}"));
                let hold = (row["turn_id"] == turn.as_str())
                    .then(|| row["hold_id"].as_str().map(str::to_owned))
                    .flatten();
                let allow = data["action"] == "execute";
                Some(inner.history.decision_sent(self.generation, &session, &call, allow, hold))
            }
            "configuration::get" if data["id"] == "approval-gate" => {
                Some(inner.history.fetch_sent(self.generation, link))
            }
            _ => None,
        }
    }
}

struct Request {
    world: Arc<World>,
    generation: u64,
    arrival: Instant,
    link: Arc<Link>,
    call: u64,
    function: String,
    data: Value,
}

impl Request {
    async fn serve(self) {
        tokio::time::sleep_until(self.arrival).await;
        if self.link.lost() {
            return;
        }
        let fate = self.world.inner().faults.fate(&self.function);
        let refused = || Err(ErrorBody::new("unavailable", "on purpose"));
        let mut reply = if fate.refused_before { refused() } else { self.perform(fate.working).await };
        if fate.refused_after {
            reply = refused();
        }
        if fate.answer_lost {
            return;
        }
        tokio::time::sleep(fate.back).await;
        self.link.answer(self.call, reply);
    }

    async fn perform(&self, working: std::time::Duration) -> Reply {
        let (world, data) = (&self.world, &self.data);
        tokio::time::sleep(working).await;
        if self.function.starts_with("state::") {
            drop(world.state_turn.lock().await);
        }
        if self.function == FUNCTION_RESOLVE {
            return harness::resolve(world, data).await;
        }
        let mut guard = world.inner();
        let inner = &mut *guard;
        let session = data["session_id"].as_str().unwrap_or_default();
        match self.function.as_str() {
            "configuration::get" if data["id"] == "approval-gate" => {
                Ok(json!({"id": "approval-gate", "value": inner.configuration}))
            }
            "configuration::get" => Ok(json!({"id": data["id"], "value": {"fs": {"host_roots": []}}})),
            "configuration::set" | "engine::registered-triggers::info" => Ok(json!({})),
            FILESYSTEM_GRANTS => Ok(json!({"roots": inner.harness.grants(session)})),
            FILESYSTEM_GRANT => {
                inner.harness.grant(session, data["root"].as_str().unwrap_or_default());
                Ok(json!({}))
            }
            "session::get" => Ok(json!({"meta": {"title": session, "metadata": {"of": session}}})),
            function => {
                inner.history.stored(self.generation, function, data);
                let reply = inner.store.apply(function, data);
                let is_told =
                    matches!(function, "state::set" | "state::delete") && inner.faults.roll("told", 8) > 0;
                if is_told {
                    let pause = inner.faults.ms("telling", 40);
                    tokio::spawn(tell_of_change(Arc::clone(world), data.clone(), pause));
                }
                reply
            }
        }
    }
}

/// The `state` trigger: after a while, in any order, and sometimes not at all, the worker is told what was written.
async fn tell_of_change(world: Arc<World>, data: Value, pause: std::time::Duration) {
    tokio::time::sleep(pause).await;
    let Some((worker, _)) = world.serving() else { return };
    let event = json!({"type": "state", "event_type": "state:updated", "scope": data["scope"], "key": data["key"],
        "old_value": null, "new_value": data.get("value").cloned().unwrap_or_default()});
    let Ok(payload) = to_raw_value(&event) else { return };
    let invocation =
        Invocation { function_id: "approval::on-state-changed".into(), data: payload, metadata: None };
    drop(worker.handler("approval::on-state-changed")(invocation).await);
}
