//! Messages from the engine: text in, one of a closed set out.
//!
//! Reads the envelope only. Every key is first collected as text, then those that the type needs are read, so that a
//! mistake in one of them does not hide the id of whoever waits for an answer.

use std::borrow::Cow;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::error::ErrorBody;

/// A message from the engine.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// First frame of every connection.
    WorkerRegistered {
        /// Our id on this connection; public.
        worker_id: Cow<'a, str>,
        /// The secret that retires this connection later; absent from older engines.
        reattach_token: Option<Cow<'a, str>>,
    },
    /// A call for us to execute.
    Invoke(Invoke<'a>),
    /// An answer to a call of ours.
    Answer {
        /// The id of our call.
        invocation_id: Uuid,
        /// `None` when the frame has no `result` key, which is not the same as a `null` result.
        outcome: Result<Option<&'a RawValue>, ErrorBody>,
    },
    /// A binding for one of the trigger types that we provide.
    Bind(Binding<'a>),
    /// A binding of a trigger type of ours is gone.
    Unbind {
        /// The binding's id.
        id: Cow<'a, str>,
        /// The trigger type, if given.
        trigger_type: Option<Cow<'a, str>>,
    },
    /// The verdict on a binding of ours; only refusals are sent.
    BindingVerdict {
        /// The binding's id.
        id: Cow<'a, str>,
        /// Why it was refused.
        refusal: Option<ErrorBody>,
    },
    /// A function id or our worker name is owned by another connection.
    Rejected(Rejection<'a>),
    /// The engine will not have us (access control).
    Refused(ErrorBody),
    /// Wants a `pong`.
    Ping,
    /// A type that we do not know, or need no action for.
    Other,
}

/// A call for us to execute, payloads still as text.
#[derive(Debug)]
pub struct Invoke<'a> {
    /// Absent if no answer is wanted.
    pub invocation_id: Option<Uuid>,
    /// Which of our functions.
    pub function_id: Cow<'a, str>,
    /// The payload; `None` if the key is absent.
    pub data: Option<&'a RawValue>,
    /// What the binding or the caller sent along.
    pub metadata: Option<&'a RawValue>,
    /// Trace context of the caller.
    pub traceparent: Option<Cow<'a, str>>,
    /// Trace baggage of the caller.
    pub baggage: Option<Cow<'a, str>>,
}

/// A binding as the engine hands it to the provider.
#[derive(Debug)]
pub struct Binding<'a> {
    /// Global key of the binding.
    pub id: Cow<'a, str>,
    /// One of our trigger types.
    pub trigger_type: Cow<'a, str>,
    /// The function to call when it fires.
    pub function_id: Cow<'a, str>,
    /// Whatever the binder wrote.
    pub config: Option<&'a RawValue>,
    /// To be sent along with every event.
    pub metadata: Option<&'a RawValue>,
    /// Where the function lives, when it is not the default namespace.
    pub namespace: Option<Cow<'a, str>>,
}

/// Who owns what we asked for.
#[derive(Debug)]
pub struct Rejection<'a> {
    /// `FUNCTION_NAMESPACE_CONFLICT` or `WORKER_NAMESPACE_CONFLICT`.
    pub code: Cow<'a, str>,
    /// The function id in conflict, when it is one.
    pub function_id: Option<Cow<'a, str>>,
    /// The owner's connection; empty when the id is reserved.
    pub owner_worker_id: Cow<'a, str>,
}

/// A frame that cannot be understood, and what is owed for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecodable {
    /// Nothing is owed; the text says what could not be read.
    Ignored(&'static str),
    /// A call whose id is readable: its caller waits for an answer.
    Invocation {
        /// The id to answer.
        invocation_id: Uuid,
        /// What could not be read.
        what: &'static str,
    },
}

/// The keys that we look at. All of one frame are collected as text first, so that a mistake in one of them does not
/// hide the id that says who is waiting.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Type,
    Id,
    InvocationId,
    FunctionId,
    Data,
    Result,
    Error,
    Config,
    Metadata,
    WorkerId,
    ReattachToken,
    TriggerType,
    Code,
    OwnerWorkerId,
    Namespace,
    Traceparent,
    Baggage,
    #[serde(other)]
    Other,
}

/// The values by key; the last one counts where a key is repeated.
#[derive(Default)]
struct Envelope<'a>([Option<&'a RawValue>; Key::Other as usize]);

impl<'de> serde::Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut envelope = Envelope::default();
                while let Some(key) = map.next_key::<Key>()? {
                    match envelope.0.get_mut(key as usize) {
                        Some(slot) => *slot = Some(map.next_value()?),
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'a> Envelope<'a> {
    fn raw(&self, key: Key) -> Option<&'a RawValue> {
        self.0.get(key as usize).copied().flatten()
    }

    /// A required string.
    fn text(&self, key: Key, what: &'static str) -> Result<Cow<'a, str>, &'static str> {
        self.raw(key).and_then(text_of).ok_or(what)
    }

    /// An optional string; `null` is absent, and so is anything that is no string.
    fn optional(&self, key: Key) -> Option<Cow<'a, str>> {
        self.raw(key).and_then(text_of)
    }

    /// An optional payload; `null` is absent.
    fn payload(&self, key: Key) -> Option<&'a RawValue> {
        self.raw(key).filter(|raw| raw.get() != "null")
    }

    fn error(&self) -> Option<ErrorBody> {
        let raw = self.payload(Key::Error)?;
        Some(serde_json::from_str(raw.get()).unwrap_or_else(|_| {
            ErrorBody::new("unreadable_error", "the error of the answer has no readable code and message")
        }))
    }
}

fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    // Nearly every string has no escape: look before paying for a parser.
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        _ => serde_json::from_str::<String>(text).ok().map(Cow::Owned),
    }
}

/// Parses one message from the engine. Never recurses into payloads.
pub fn decode(text: &str) -> Result<Incoming<'_>, Undecodable> {
    let envelope: Envelope<'_> =
        serde_json::from_str(text).map_err(|_| Undecodable::Ignored("not a JSON object"))?;
    let kind = envelope.text(Key::Type, "`type`").map_err(Undecodable::Ignored)?;
    match &*kind {
        "invokefunction" => invoke(&envelope),
        "invocationresult" => answer(&envelope),
        "registertrigger" => bind(&envelope).map_err(Undecodable::Ignored),
        "unregistertrigger" => Ok(Incoming::Unbind {
            id: envelope.text(Key::Id, "`id`").map_err(Undecodable::Ignored)?,
            trigger_type: envelope.optional(Key::TriggerType),
        }),
        "triggerregistrationresult" => Ok(Incoming::BindingVerdict {
            id: envelope.text(Key::Id, "`id`").map_err(Undecodable::Ignored)?,
            refusal: envelope.error(),
        }),
        "registrationrejected" => Ok(Incoming::Rejected(Rejection {
            code: envelope.text(Key::Code, "`code`").map_err(Undecodable::Ignored)?,
            function_id: envelope.optional(Key::FunctionId),
            owner_worker_id: envelope.optional(Key::OwnerWorkerId).unwrap_or_default(),
        })),
        "workerregistered" => Ok(Incoming::WorkerRegistered {
            worker_id: envelope.text(Key::WorkerId, "`worker_id`").map_err(Undecodable::Ignored)?,
            reattach_token: envelope.optional(Key::ReattachToken),
        }),
        "error" => Ok(envelope.error().map_or(Incoming::Other, Incoming::Refused)),
        "ping" => Ok(Incoming::Ping),
        _ => Ok(Incoming::Other),
    }
}

fn invoke<'a>(envelope: &Envelope<'a>) -> Result<Incoming<'a>, Undecodable> {
    let invocation_id = match envelope.payload(Key::InvocationId) {
        None => None,
        Some(raw) => Some(uuid_of(raw).ok_or(Undecodable::Ignored("`invocation_id`"))?),
    };
    let function_id =
        envelope.text(Key::FunctionId, "`function_id`").map_err(|what| match invocation_id {
            Some(invocation_id) => Undecodable::Invocation { invocation_id, what },
            None => Undecodable::Ignored(what),
        })?;
    Ok(Incoming::Invoke(Invoke {
        invocation_id,
        function_id,
        data: envelope.raw(Key::Data),
        metadata: envelope.payload(Key::Metadata),
        traceparent: envelope.optional(Key::Traceparent),
        baggage: envelope.optional(Key::Baggage),
    }))
}

fn answer<'a>(envelope: &Envelope<'a>) -> Result<Incoming<'a>, Undecodable> {
    let invocation_id =
        envelope.raw(Key::InvocationId).and_then(uuid_of).ok_or(Undecodable::Ignored("`invocation_id`"))?;
    // An error wins over a result, as it does in the engine.
    let outcome = match envelope.error() {
        Some(error) => Err(error),
        None => Ok(envelope.raw(Key::Result)),
    };
    Ok(Incoming::Answer { invocation_id, outcome })
}

fn bind<'a>(envelope: &Envelope<'a>) -> Result<Incoming<'a>, &'static str> {
    Ok(Incoming::Bind(Binding {
        id: envelope.text(Key::Id, "`id`")?,
        trigger_type: envelope.text(Key::TriggerType, "`trigger_type`")?,
        function_id: envelope.text(Key::FunctionId, "`function_id`")?,
        config: envelope.raw(Key::Config),
        metadata: envelope.payload(Key::Metadata),
        namespace: envelope.optional(Key::Namespace),
    }))
}

/// Ids are compared as values: the engine answers in one spelling whatever we wrote.
fn uuid_of(raw: &RawValue) -> Option<Uuid> {
    Uuid::try_parse(&text_of(raw)?).ok()
}
