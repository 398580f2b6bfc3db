//! One file per function: decode, decide, perform, encode. [`catalogue`] joins each id to its schema and handler.
//!
//! The two hooks answer whatever happens: the gate fails closed, the watch fails open. All others refuse with one of
//! the codes of contract §9, or one of those that an addition has.

mod answering;
mod approved_rules;
mod evaluate;
mod filesystem_access_watch;
mod gate;
mod get_pending;
mod judged;
mod lifecycle;
mod list_pending;
mod prompts;
mod resolve;
mod settings;
mod unattended;

use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::audit::Audit;
use crate::events::Events;
use crate::iii::{ErrorBody, Function, Handler, Invocation, OnTheSpot, Reply};
use crate::keep::background::Background;
use crate::keep::filesystem::FilesystemKeep;
use crate::keep::inbox::Inbox;
use crate::keep::keyed_lock::KeyedLock;
use crate::keep::live_config::LiveConfig;
use crate::keep::settings::SettingsKeep;
use crate::siblings::SharedEngine;
use crate::siblings::configuration::Configuration;
use crate::siblings::harness::Harness;
use crate::siblings::session_manager::SessionManager;
use crate::siblings::shell::Shell;
use crate::siblings::state::State;
use crate::wire::error::{Refusal, decode};
use crate::wire::hook::HookOutput;
use crate::wire::schema::{self, FunctionSchema};

/// From how many bytes on a payload is large.
const LARGE_PAYLOAD: usize = 64 * 1024;

/// What a handler is given.
pub struct Context {
    /// The policy in force.
    pub config: LiveConfig,
    /// Sessions' settings.
    pub settings: SettingsKeep,
    /// Held calls.
    pub inbox: Inbox,
    /// What the watch remembers.
    pub filesystem: FilesystemKeep,
    /// Releases and denials.
    pub harness: Harness,
    /// Titles and metadata.
    pub sessions: SessionManager,
    /// The shell worker's entry.
    pub shell: Shell,
    /// Grants of one session are made one at a time: the harness's own list has no guard.
    pub granting: KeyedLock,
    /// The listeners.
    pub events: Events,
    /// One call is put to answerers once at a time, however often it is delivered.
    pub asking: KeyedLock,
    /// Who decided what.
    pub audit: Audit,
    /// Work that goes on after an answer.
    pub background: Background,
    /// The configuration worker.
    pub configuration: Configuration,
    /// The engine itself.
    pub engine: SharedEngine,
}

impl Context {
    /// Everything over one engine.
    pub fn new(engine: &SharedEngine) -> Arc<Self> {
        let background = Background::default();
        let configuration = Configuration::new(Arc::clone(engine));
        let state = State::new(Arc::clone(engine));
        let events = Events::new(Arc::clone(engine));
        let config = LiveConfig::new(configuration.clone(), background.clone());
        let told = events.clone();
        config.on_prompts(move |before, after| told.default_prompts_changed(before, after));
        Arc::new(Self {
            settings: SettingsKeep::new(state.clone(), config.clone(), background.clone()),
            inbox: Inbox::new(state.clone(), events.clone(), background.clone()),
            filesystem: FilesystemKeep::new(state),
            harness: Harness::new(Arc::clone(engine)),
            sessions: SessionManager::new(Arc::clone(engine)),
            shell: Shell::new(configuration.clone()),
            granting: KeyedLock::default(),
            asking: KeyedLock::default(),
            config,
            audit: Audit::new(events.clone()),
            events,
            background,
            configuration,
            engine: Arc::clone(engine),
        })
    }
}

/// Every function that is registered, with its schemas and its handler.
pub fn catalogue(context: &Arc<Context>) -> Vec<Function> {
    schema::functions().into_iter().filter_map(|published| function(published, context)).collect()
}

fn function(published: FunctionSchema, context: &Arc<Context>) -> Option<Function> {
    let handler = match published.id {
        "approval::gate" => hook(context, gate::gate),
        "approval::filesystem-access-watch" | "approval::grant-watch" => {
            hook(context, filesystem_access_watch::watch)
        }
        "approval::resolve" => attested(context, resolve::resolve),
        "approval::list-pending" => typed(context, list_pending::list_pending),
        "approval::get-pending" => typed(context, get_pending::get_pending),
        "approval::set-mode" => typed(context, settings::set_mode),
        "approval::add-always-allow" => typed(context, settings::add_always_allow),
        "approval::remove-always-allow" => typed(context, settings::remove_always_allow),
        "approval::approve-always" => typed(context, settings::approve_always),
        "approval::get-settings" => typed(context, settings::get_settings),
        "approval::clear-settings" => typed(context, settings::clear_settings),
        "approval::set-prompt-policy" => typed(context, prompts::set_prompt_policy),
        "approval::get-prompt-policy" => typed(context, prompts::get_prompt_policy),
        "approval::approve-rule" => typed(context, approved_rules::approve_rule),
        "approval::remove-rule" => typed(context, approved_rules::remove_rule),
        "approval::evaluate" => typed(context, evaluate::evaluate),
        "approval::on-session-deleted" => typed(context, lifecycle::on_session_deleted),
        "approval::on-turn-completed" => typed(context, lifecycle::on_turn_completed),
        "approval::on-config-change" => untyped(context, lifecycle::on_config_change),
        "approval::on-state-changed" => typed(context, lifecycle::on_state_changed),
        _ => return None,
    };
    Some(Function {
        id: published.id.to_owned(),
        description: published.description.to_owned(),
        request_schema: published.request,
        response_schema: published.response,
        // Hidden from the engine's ordinary listing: nobody but the engine has a use for it.
        metadata: (published.id == schema::ON_STATE_CHANGED).then(|| json!({"internal": true})),
        handler,
        on_the_spot: (published.id == schema::GATE).then(|| on_the_spot(context)),
    })
}

/// `continue` without waiting and without copying, where memory is enough to know it.
fn on_the_spot(context: &Arc<Context>) -> OnTheSpot {
    let context = Arc::clone(context);
    let answer: Option<Arc<RawValue>> = to_raw_value(&HookOutput::Continue).ok().map(Arc::from);
    Arc::new(move |payload| {
        let is_small = payload.get().len() <= LARGE_PAYLOAD;
        answer.clone().filter(|_| is_small && gate::continues(&context, payload))
    })
}

/// A hook: reads its payload itself, because it answers also what it cannot read.
fn hook<Fut>(context: &Arc<Context>, handle: fn(Arc<Context>, Box<RawValue>) -> Fut) -> Handler
where
    Fut: Future<Output = HookOutput> + Send + 'static,
{
    let context = Arc::clone(context);
    Arc::new(move |invocation: Invocation| {
        let context = Arc::clone(&context);
        Box::pin(async move {
            make_way(&invocation).await;
            encode(&handle(context, invocation.data).await)
        })
    })
}

/// A handler starts on the task that reads the socket. Decoding something large there would delay every other call,
/// so that such a handler first moves to a task of its own.
async fn make_way(invocation: &Invocation) {
    if invocation.data.get().len() > LARGE_PAYLOAD {
        tokio::task::yield_now().await;
    }
}

/// A function with a typed request.
fn typed<T, R, Fut>(context: &Arc<Context>, handle: fn(Arc<Context>, T) -> Fut) -> Handler
where
    T: DeserializeOwned + Send + 'static,
    R: Serialize + 'static,
    Fut: Future<Output = Result<R, Refusal>> + Send + 'static,
{
    attested(context, move |context, _, request| handle(context, request))
}

/// As [`typed`], for a function that wants to know which connection calls, as far as the engine says so.
fn attested<T, R, Fut>(
    context: &Arc<Context>,
    handle: impl Fn(Arc<Context>, Option<String>, T) -> Fut + Copy + Send + Sync + 'static,
) -> Handler
where
    T: DeserializeOwned + Send + 'static,
    R: Serialize + 'static,
    Fut: Future<Output = Result<R, Refusal>> + Send + 'static,
{
    let context = Arc::clone(context);
    Arc::new(move |invocation: Invocation| {
        let context = Arc::clone(&context);
        Box::pin(async move {
            make_way(&invocation).await;
            let request: T = decode(&invocation.data).map_err(|invalid| refused(&invalid.into()))?;
            let answer = handle(context, invocation.caller(), request).await;
            encode(&answer.map_err(|refusal| refused(&refusal))?)
        })
    })
}

/// A function that does not look at its payload.
fn untyped<R, Fut>(context: &Arc<Context>, handle: fn(Arc<Context>) -> Fut) -> Handler
where
    R: Serialize + 'static,
    Fut: Future<Output = R> + Send + 'static,
{
    let context = Arc::clone(context);
    Arc::new(move |_| {
        let answer = handle(Arc::clone(&context));
        Box::pin(async move { encode(&answer.await) })
    })
}

fn encode(response: &impl Serialize) -> Reply {
    to_raw_value(response)
        .map_err(|_| ErrorBody::new("invocation_failed", "the response could not be written"))
}

fn refused(refusal: &Refusal) -> ErrorBody {
    ErrorBody::new(refusal.code(), refusal.to_string())
}
