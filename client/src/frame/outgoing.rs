//! Messages to the engine: one of a closed set in, text out, unless the engine would drop it.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{MAX_FRAME_BYTES, MAX_NESTING};
use crate::error::ErrorBody;

/// A message to the engine. `D` is the type of the payload.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Outgoing<'a, D: ?Sized> {
    /// Retires our previous connection.
    Reattach {
        /// Our id on it.
        previous_worker_id: &'a str,
        /// Its secret.
        reattach_token: &'a str,
    },
    /// Offers a trigger type.
    RegisterTriggerType {
        /// The type.
        id: &'a str,
        /// Required by the engine.
        description: &'a str,
        /// Schema of a binding's config.
        trigger_request_format: &'a serde_json::Value,
        /// Schema of the event payload.
        #[serde(skip_serializing_if = "Option::is_none")]
        call_request_format: Option<&'a serde_json::Value>,
    },
    /// Offers a function.
    RegisterFunction {
        /// The function id.
        id: &'a str,
        /// One line; left out if empty.
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        /// Schema of the request.
        request_format: &'a serde_json::Value,
        /// Schema of the answer.
        response_format: &'a serde_json::Value,
        /// Whatever the listing should show.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a serde_json::Value>,
    },
    /// Withdraws a function.
    UnregisterFunction {
        /// The function id.
        id: &'a str,
    },
    /// Binds one of our functions to a trigger type.
    RegisterTrigger {
        /// Global key; the same id again replaces.
        id: &'a str,
        /// The trigger type.
        trigger_type: &'a str,
        /// The function to call.
        function_id: &'a str,
        /// Required, may be null.
        config: &'a serde_json::Value,
    },
    /// Our verdict as a provider.
    TriggerRegistrationResult {
        /// The binding's id.
        id: &'a str,
        /// Echoed.
        trigger_type: &'a str,
        /// Echoed.
        function_id: &'a str,
        /// Why it is refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorBody>,
    },
    /// A call; without an id it wants no answer.
    InvokeFunction {
        /// `None` is written as `null`.
        #[serde(serialize_with = "optional_id")]
        invocation_id: Option<Uuid>,
        /// The function to call.
        function_id: &'a str,
        /// The payload.
        data: &'a D,
        /// Void, or absent for a call that is answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        action: Option<Action>,
        /// Delivered beside the payload.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a RawValue>,
        /// Where the function lives; absent is the default namespace.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        /// Trace context of what caused this call.
        #[serde(skip_serializing_if = "Option::is_none")]
        traceparent: Option<&'a str>,
        /// Trace baggage of what caused this call.
        #[serde(skip_serializing_if = "Option::is_none")]
        baggage: Option<&'a str>,
    },
    /// An answer. Without result and error it is a success without value.
    InvocationResult {
        /// The call.
        #[serde(serialize_with = "canonical_id")]
        invocation_id: Uuid,
        /// Required by the engine, not used for matching.
        function_id: &'a str,
        /// The value.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a D>,
        /// Why there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorBody>,
    },
    /// Answer to `ping`.
    Pong,
}

/// A message without a payload of a type of its own.
pub type Plain<'a> = Outgoing<'a, RawValue>;

fn canonical_id<S: Serializer>(id: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}

#[allow(clippy::ref_option)] // the signature that serde asks for
fn optional_id<S: Serializer>(id: &Option<Uuid>, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => canonical_id(id, serializer),
        None => serializer.serialize_none(),
    }
}

/// What the engine is to do with a call besides passing it on.
#[derive(Serialize, Clone, Copy)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Action {
    /// Nobody waits for the answer.
    Void,
}

/// Why a frame was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsendable {
    /// Larger than [`MAX_FRAME_BYTES`]; the size is given.
    TooLarge(usize),
    /// Nests deeper than [`MAX_NESTING`].
    TooDeep,
    /// The payload has no JSON form.
    Unwritable,
}

impl<D: Serialize + ?Sized> Outgoing<'_, D> {
    /// The frame as text, unless the engine would drop it.
    pub fn write(&self) -> Result<String, Unsendable> {
        // The writer's own first guess is a little less than an ordinary answer takes, and would be moved.
        let mut text = Vec::with_capacity(256);
        serde_json::to_writer(&mut text, self).map_err(|_| Unsendable::Unwritable)?;
        sendable(String::from_utf8(text).map_err(|_| Unsendable::Unwritable)?)
    }
}

/// Answers a call with a result: [`Outgoing::InvocationResult`] without a detour through its general form, since there is
/// one for every decision.
pub fn answer(invocation_id: Uuid, function_id: &str, result: &RawValue) -> Result<String, Unsendable> {
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    if !function_id.bytes().all(plain) {
        let (result, error) = (Some(result), None);
        return Plain::InvocationResult { invocation_id, function_id, result, error }.write();
    }
    let mut id = Uuid::encode_buffer();
    let id: &str = invocation_id.as_hyphenated().encode_lower(&mut id);
    let parts = [
        r#"{"type":"invocationresult","invocation_id":""#,
        id,
        r#"","function_id":""#,
        function_id,
        r#"","result":"#,
        result.get(),
        "}",
    ];
    sendable(parts.concat())
}

fn sendable(text: String) -> Result<String, Unsendable> {
    if text.len() > MAX_FRAME_BYTES {
        return Err(Unsendable::TooLarge(text.len()));
    }
    if nests_deeper_than(&text, MAX_NESTING) {
        return Err(Unsendable::TooDeep);
    }
    Ok(text)
}

/// Whether well-formed JSON opens more than `limit` containers at once.
fn nests_deeper_than(text: &str, limit: usize) -> bool {
    // No more can be open than are opened, and those are counted many bytes at once.
    let opens = |few: &[u8]| few.iter().fold(0, |count, byte| count + u8::from(matches!(byte, b'{' | b'[')));
    if text.as_bytes().chunks(128).map(|few| usize::from(opens(few))).sum::<usize>() <= limit {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
