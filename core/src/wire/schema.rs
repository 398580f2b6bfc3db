//! What is registered with the engine: each function's and trigger type's name, description and JSON Schemas.
//!
//! The shapes are the published worker's, keyword for keyword; the descriptions are the doc comments of the types.
//! Deriving both leaves three differences of form, which `settle` evens out: a described `$ref` is wrapped in an
//! `allOf`, an enum with described variants becomes a `oneOf`, and a bound is written as a float.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::wire::answerer::AnswererConfig;
use crate::wire::approved_rules::{
    ApproveRuleRequest, ApproveRuleResponse, RemoveRuleRequest, RemoveRuleResponse,
};
use crate::wire::evaluation::{EvaluateRequest, EvaluateResponse};
use crate::wire::events::BindingConfig;
use crate::wire::hook::{HookInput, HookOutput};
use crate::wire::inbox::{GetPendingRequest, GetPendingResponse, ListPendingRequest, ListPendingResponse};
use crate::wire::lifecycle::{
    EventAck, OnConfigChangeEvent, OnConfigChangeResponse, SessionDeletedEvent, StateChangedEvent,
    TurnCompletedEvent,
};
use crate::wire::prompts::{
    GetPromptPolicyRequest, PromptBindingConfig, PromptPolicyResponse, SetPromptPolicyRequest,
};
use crate::wire::resolve::{ResolveRequest, ResolveResponse};
use crate::wire::settings::{
    AlwaysAllowMutationRequest, ApproveAlwaysRequest, ClearSettingsRequest, ClearSettingsResponse,
    GetSettingsRequest, GetSettingsResponse, SetModeRequest, SettingsResponse,
};

/// The pre-trigger hook.
pub const GATE: &str = "approval::gate";
/// The post-trigger hook. The harness looks for this very id when it decides a call's filesystem boundary.
pub const FILESYSTEM_ACCESS_WATCH: &str = "approval::filesystem-access-watch";
/// The older name of [`FILESYSTEM_ACCESS_WATCH`]; registered, never bound (contract §0).
pub const GRANT_WATCH: &str = "approval::grant-watch";
/// Takes a person's decision.
pub const RESOLVE: &str = "approval::resolve";
/// Reads the inbox.
pub const LIST_PENDING: &str = "approval::list-pending";
/// Reads one record.
pub const GET_PENDING: &str = "approval::get-pending";
/// Sets a session's mode.
pub const SET_MODE: &str = "approval::set-mode";
/// Adds to a session's auto list.
pub const ADD_ALWAYS_ALLOW: &str = "approval::add-always-allow";
/// Takes out of a session's auto list.
pub const REMOVE_ALWAYS_ALLOW: &str = "approval::remove-always-allow";
/// Approves a function for a session.
pub const APPROVE_ALWAYS: &str = "approval::approve-always";
/// Reads a session's settings.
pub const GET_SETTINGS: &str = "approval::get-settings";
/// Sends a session back to the defaults.
pub const CLEAR_SETTINGS: &str = "approval::clear-settings";
/// Bound to `session::deleted`.
pub const ON_SESSION_DELETED: &str = "approval::on-session-deleted";
/// Bound to `harness::turn-completed`.
pub const ON_TURN_COMPLETED: &str = "approval::on-turn-completed";
/// Bound to changes of our configuration entry.
pub const ON_CONFIG_CHANGE: &str = "approval::on-config-change";
/// Told of changes in the gate's own scopes; an addition to the published functions.
pub const ON_STATE_CHANGED: &str = "approval::on-state-changed";
/// Sets a session's prompt policy; an addition to the published functions, as are the next four.
pub const SET_PROMPT_POLICY: &str = "approval::set-prompt-policy";
/// Reads a session's prompt policy.
pub const GET_PROMPT_POLICY: &str = "approval::get-prompt-policy";
/// Approves one kind of call for a session.
pub const APPROVE_RULE: &str = "approval::approve-rule";
/// Forgets an approved rule.
pub const REMOVE_RULE: &str = "approval::remove-rule";
/// Tells what would become of a call, or why one waits.
pub const EVALUATE: &str = "approval::evaluate";
/// The trigger type that tells of a changed prompt policy; an addition to the published ones.
pub const PROMPT_POLICY_CHANGED: &str = "approval::prompt-policy-changed";
/// The trigger type that tells of a new hold.
pub const PENDING_CREATED: &str = "approval::pending-created";
/// The trigger type that tells of a hold's end.
pub const PENDING_RESOLVED: &str = "approval::pending-resolved";
/// The trigger type that tells who decided what; an addition to the published ones.
pub const AUDIT: &str = "approval::audit";

/// The trigger type whose bindings are asked before a person is; an addition to the published ones.
pub const ANSWERER: &str = "approval::answerer";

/// A function as it is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionSchema {
    /// Its id.
    pub id: &'static str,
    /// What it does, for whoever lists functions.
    pub description: &'static str,
    /// The JSON Schema (draft 7) of its request.
    pub request: Value,
    /// The JSON Schema (draft 7) of its answer.
    pub response: Value,
}

/// A trigger type as it is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggerTypeSchema {
    /// Its id.
    pub id: &'static str,
    /// When it fires and with what, for whoever lists trigger types.
    pub description: &'static str,
    /// The JSON Schema (draft 7) of a binding's config. The engine shows it; enforcing it is ours.
    pub config: Value,
}

/// Every function, in the order of registration; the older alias last.
pub fn functions() -> Vec<FunctionSchema> {
    let mut functions = hooks();
    functions.extend(decisions_and_inbox());
    functions.extend(settings());
    functions.extend(notices());
    functions.extend(session_additions());
    functions.push(function::<HookInput, HookOutput>(
        GRANT_WATCH,
        "The older name of approval::filesystem-access-watch, kept for callers that know no other. Called \
         by the harness only.",
    ));
    functions
}

/// Both published trigger types, in the order of registration.
pub fn trigger_types() -> [TriggerTypeSchema; 2] {
    let config = schema_of::<BindingConfig>();
    [
        TriggerTypeSchema {
            id: PENDING_CREATED,
            description: "Fires when a call starts to wait for a person. Carries the whole record with \
                          `status: \"pending\"`: redacted arguments and the session's title, description \
                          and metadata, enough to notify with.",
            config: config.clone(),
        },
        TriggerTypeSchema {
            id: PENDING_RESOLVED,
            description: "Fires once when a waiting call stops waiting, with the outcome: allow, deny, or \
                          aborted when the turn or session ended or a newer hold took its place. Clear \
                          prompts and badges on it.",
            config,
        },
    ]
}

/// The trigger types that the published worker does not have, behind [`trigger_types`].
pub fn added_trigger_types() -> Vec<TriggerTypeSchema> {
    vec![
        TriggerTypeSchema {
            id: ANSWERER,
            description: "Asks your function about a call before it waits for a person. It gets the redacted record \
                          and answers {decision: allow, deny or pass, reason?} in time; anything else is pass. \
                          allow counts only for functions that the configuration marks as answerable.",
            config: schema_of::<AnswererConfig>(),
        },
        TriggerTypeSchema {
            id: AUDIT,
            description: "Fires when a call starts to wait for a decision (`entry: \"asked\"`) and when it was \
                          decided (`entry: \"decided\"`, with outcome, surface and caller), both with the same \
                          `event_id`. For workers that keep a log; never for agents.",
            config: schema_of::<BindingConfig>(),
        },
        TriggerTypeSchema {
            id: PROMPT_POLICY_CHANGED,
            description: "Fires when it changes whether anybody is asked in a session, with the policy, the one before \
                          and a statement for a system prompt; without a session when the deployment's default changes.",
            config: schema_of::<PromptBindingConfig>(),
        },
    ]
}

fn hooks() -> Vec<FunctionSchema> {
    vec![
        undescribed(function::<HookInput, HookOutput>(
            GATE,
            "Judges a function call before it runs and answers continue, deny or hold; a held call is in \
             the inbox by then. Called by the harness only. Its fields are those of \
             approval::filesystem-access-watch, which describes them.",
        )),
        function::<HookInput, HookOutput>(
            FILESYSTEM_ACCESS_WATCH,
            "Looks at failed shell and coder calls; one that asks for access outside its filesystem jail is \
             held so that a person can grant it, all others pass. Called by the harness only.",
        ),
    ]
}

/// Without the prose in its schemas. An engine copies the schemas of a function for every call of it, and the gate is called
/// before every call there is.
fn undescribed(function: FunctionSchema) -> FunctionSchema {
    fn bare(schema: Value) -> Value {
        match schema {
            Value::Object(object) => {
                let kept =
                    object.into_iter().filter(|(key, value)| key != "description" || !value.is_string());
                Value::Object(kept.map(|(key, value)| (key, bare(value))).collect())
            }
            Value::Array(items) => items.into_iter().map(bare).collect(),
            other => other,
        }
    }
    FunctionSchema { request: bare(function.request), response: bare(function.response), ..function }
}

fn decisions_and_inbox() -> Vec<FunctionSchema> {
    vec![
        function::<ResolveRequest, ResolveResponse>(
            RESOLVE,
            "Decides a call that waits: allow runs it, deny tells the model why not. For people only, never \
             for agents.",
        ),
        function::<ListPendingRequest, ListPendingResponse>(
            LIST_PENDING,
            "Lists the calls that wait for a person, page by page, of all sessions or of those that match. \
             Ask once after a restart to catch up with missed events.",
        ),
        function::<GetPendingRequest, Option<GetPendingResponse>>(
            GET_PENDING,
            "Tells about one call that waits; null when nothing of that name does.",
        ),
    ]
}

fn settings() -> Vec<FunctionSchema> {
    vec![
        function::<SetModeRequest, SettingsResponse>(
            SET_MODE,
            "Puts a session into manual, auto or full mode. For people only, never for agents.",
        ),
        function::<AlwaysAllowMutationRequest, SettingsResponse>(
            ADD_ALWAYS_ALLOW,
            "Lets a function run without a question while the session is in auto mode; adding it twice \
             changes nothing. For people only, never for agents.",
        ),
        function::<AlwaysAllowMutationRequest, SettingsResponse>(
            REMOVE_ALWAYS_ALLOW,
            "Takes a function off the session's auto mode list, if it is on it. For people only, never for \
             agents.",
        ),
        function::<ApproveAlwaysRequest, SettingsResponse>(
            APPROVE_ALWAYS,
            "Lets a function run without a question in this session, whatever its mode. For people only, \
             never for agents.",
        ),
        function::<GetSettingsRequest, GetSettingsResponse>(
            GET_SETTINGS,
            "Tells which settings are in force in a session and whether they are its own or the \
             deployment's. Changes nothing.",
        ),
        function::<ClearSettingsRequest, ClearSettingsResponse>(
            CLEAR_SETTINGS,
            "Removes a session's own settings, readable or not, so that the deployment's defaults are in \
             force again.",
        ),
    ]
}

fn session_additions() -> Vec<FunctionSchema> {
    vec![
        function::<SetPromptPolicyRequest, PromptPolicyResponse>(
            SET_PROMPT_POLICY,
            "Says whether calls of a session wait for a person or are denied at once; without a policy the \
             deployment's is in force again. For people only, never for agents.",
        ),
        function::<GetPromptPolicyRequest, PromptPolicyResponse>(
            GET_PROMPT_POLICY,
            "Tells whether anybody is asked in a session, where that comes from, and a statement of it for a \
             system prompt. Changes nothing.",
        ),
        function::<ApproveRuleRequest, ApproveRuleResponse>(
            APPROVE_RULE,
            "Lets calls like a held one run without a question in its session: one function, on conditions on \
             its arguments that the held call's record bears out. For people only, never for agents.",
        ),
        function::<RemoveRuleRequest, RemoveRuleResponse>(
            REMOVE_RULE,
            "Forgets a rule that was approved for a session. For people only, never for agents.",
        ),
        function::<EvaluateRequest, EvaluateResponse>(
            EVALUATE,
            "Tells what the gate would answer to a call and why, or why a call waits. Nothing is written, nobody is \
             told. For people only, never for agents.",
        ),
    ]
}

fn notices() -> Vec<FunctionSchema> {
    vec![
        function::<SessionDeletedEvent, EventAck>(
            ON_SESSION_DELETED,
            "Internal: removes everything that is kept about a session once it is gone.",
        ),
        function::<TurnCompletedEvent, EventAck>(
            ON_TURN_COMPLETED,
            "Internal: ends the holds of a turn once it is over.",
        ),
        function::<OnConfigChangeEvent, OnConfigChangeResponse>(
            ON_CONFIG_CHANGE,
            "Internal: fetches the configuration again once it changed and puts it in force if it is valid.",
        ),
        function::<StateChangedEvent, EventAck>(
            ON_STATE_CHANGED,
            "Internal: looks again at a row of the gate's own state that somebody changed.",
        ),
    ]
}

fn function<Q: JsonSchema, A: JsonSchema>(id: &'static str, description: &'static str) -> FunctionSchema {
    FunctionSchema { id, description, request: schema_of::<Q>(), response: schema_of::<A>() }
}

fn schema_of<T: JsonSchema>() -> Value {
    // Serialising a derived schema cannot fail; an empty schema, which accepts anything, would be its honest stand-in.
    let mut schema = serde_json::to_value(schemars::schema_for!(T)).unwrap_or_else(|_| json!({}));
    settle(&mut schema);
    schema
}

/// Enums that the contract spells as one list of words. Their variants' meanings move into the description.
const LISTED_ENUMS: [&str; 3] = ["PermissionMode", "ResolveDecision", "SettingsSource"];

/// Properties whose `$ref` stays wrapped in an `allOf`, because the contract has them so.
const WRAPPED: [&str; 2] = ["kind", "source"];

/// Evens out the differences of form between what is derived and the contract; see the module's header.
fn settle(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            settle_bound(object);
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                properties.iter_mut().for_each(|(name, property)| settle_property(name, property));
            }
            if let Some(Value::Object(definitions)) = object.get_mut("definitions") {
                for name in LISTED_ENUMS {
                    definitions.get_mut(name).and_then(Value::as_object_mut).map(list_variants);
                }
            }
            object.values_mut().for_each(settle);
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The only bound that occurs is 0, which is derived as `0.0`.
fn settle_bound(object: &mut Map<String, Value>) {
    if let Some(minimum) = object.get_mut("minimum")
        && minimum.as_f64() == Some(0.0)
    {
        *minimum = json!(0);
    }
}

fn settle_property(name: &str, property: &mut Value) {
    let Value::Object(property) = property else { return };
    let wrapped = WRAPPED.contains(&name) || property.contains_key("default");
    if !wrapped
        && let Some(Value::Array(parts)) = property.get("allOf")
        && let [Value::Object(only)] = parts.as_slice()
        && let Some(reference) = only.get("$ref").cloned()
    {
        property.remove("allOf");
        property.insert("$ref".to_owned(), reference);
    }
    // The tag of an answer is no field of its type, so no doc comment reaches it.
    if name == "decision" && property.contains_key("enum") {
        property.entry("description").or_insert_with(|| json!("Which of the three answers this is."));
    }
}

/// Turns a `oneOf` of single words back into one list, and their descriptions into one text.
fn list_variants(definition: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = definition.remove("oneOf") else { return };
    let mut description =
        definition.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut words = Vec::new();
    for variant in &variants {
        let Some(word) = variant.pointer("/enum/0") else { continue };
        if let (Some(word), Some(meaning)) =
            (word.as_str(), variant.get("description").and_then(Value::as_str))
        {
            description = format!("{description} `{word}`: {meaning}");
        }
        words.push(word.clone());
    }
    definition.insert("type".to_owned(), json!("string"));
    definition.insert("enum".to_owned(), Value::Array(words));
    definition.insert("description".to_owned(), Value::String(description));
}
