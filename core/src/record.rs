//! What a pending record means to the inbox: which hold it is, whether two of them ask the same, where it stands.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::fsaccess;
use crate::hold::{Position, call_digest, hold_digest};
use crate::redact;
use crate::wire::hook::HookCall;
use crate::wire::record::{AccessRequest, PendingApprovalRecord, PendingKind};
use crate::wire::session::SessionContext;

/// The longest title that a record carries, in code points.
const TITLE: usize = 256;
/// The longest description, in code points.
const DESCRIPTION: usize = 1_024;
/// The largest metadata, in bytes of JSON. Above it a record goes without: the store and every channel carry it.
const METADATA: usize = 16 * 1_024;

impl SessionContext {
    /// Leaves metadata out that a record does not take, and tells how many bytes it had.
    pub fn leave_out_large_metadata(&mut self) -> Option<usize> {
        let text = serde_json::to_string(self.metadata.as_ref()?);
        let bytes = text.map_or(usize::MAX, |text| text.len());
        (bytes > METADATA).then(|| {
            self.metadata = None;
            bytes
        })
    }
}

impl PendingApprovalRecord {
    /// A record that asks whether a call may run. Times and ids of the hold are set when it is written.
    pub fn for_function(session_id: &str, turn_id: &str, depth: i64, call: &HookCall) -> Self {
        Self {
            session_id: session_id.to_owned(),
            turn_id: turn_id.to_owned(),
            function_call_id: call.id.clone(),
            function_id: redact::visible_exact(&call.function_id).into_owned(),
            kind: PendingKind::Function,
            arguments_excerpt: redact::excerpt(&call.arguments),
            assistant_excerpt: None,
            session_title: None,
            session_description: None,
            session_metadata: None,
            pending_at: 0,
            depth,
            access_request: None,
            digest: None,
            hold_id: None,
            salt: None,
            held_because: None,
            call_digest: Some(call_digest(session_id, turn_id, &call.id, &call.function_id, &call.arguments)),
        }
    }

    /// The same call, asking for access to a root.
    #[must_use]
    pub fn asking_for(self, request: fsaccess::AccessRequest) -> Self {
        let fsaccess::AccessRequest { requested_root, attempted_path, error_code } = request;
        Self {
            kind: PendingKind::FilesystemAccess,
            access_request: Some(AccessRequest {
                requested_root,
                attempted_path: redact::visible_exact(&attempted_path).into_owned(),
                error_code,
            }),
            ..self
        }
    }

    /// With what is known about its session, [large metadata](SessionContext::leave_out_large_metadata) left out already. Title
    /// and description are made visible: agents can write them.
    #[must_use]
    pub fn in_session(self, context: SessionContext) -> Self {
        Self {
            session_metadata: context.metadata,
            session_title: context.title.map(|title| redact::shown(&title, TITLE)),
            session_description: context.description.map(|text| redact::shown(&text, DESCRIPTION)),
            ..self
        }
    }

    /// Makes this a hold of its own, with an id, and a digest under a salt of its own. One that is a hold stays the same.
    /// `fresh` gives ids by chance.
    pub fn becomes_a_hold(&mut self, fresh: impl Fn() -> Uuid) -> String {
        if let Some(hold_id) = &self.hold_id {
            return hold_id.clone();
        }
        let salt = fresh().simple().to_string();
        self.digest = self.call_digest.as_deref().map(|call| hold_digest(&salt, call));
        self.salt = self.digest.is_some().then_some(salt);
        self.hold_id.insert(fresh().to_string()).clone()
    }

    /// Whether this record is a hold of that call, exactly; `None` on a record that an older worker wrote without a digest.
    pub fn is_of_call(&self, call_digest: &str) -> Option<bool> {
        match (&self.salt, &self.digest) {
            (Some(salt), Some(digest)) => Some(*digest == hold_digest(salt, call_digest)),
            // Before digests had salts, the call's own stood behind the id.
            _ => Some(self.hold_id.as_deref()?.split_once(':')?.1 == call_digest),
        }
    }

    /// Whether the arriving record was made by the same delivery of the same question as this stored one (contract §2).
    pub fn is_same_question(&self, arriving: &Self) -> bool {
        self.is_same_call(arriving)
            && self.kind == arriving.kind
            && self.access_request == arriving.access_request
    }

    /// Whether the arriving record was made by the same call as this stored one, whatever is asked about it. A record of
    /// an older worker has no digest; then its visible parts have to do.
    pub fn is_same_call(&self, arriving: &Self) -> bool {
        let by_digest = arriving.call_digest.as_deref().and_then(|call| self.is_of_call(call));
        by_digest.unwrap_or_else(|| {
            self.session_id == arriving.session_id
                && self.turn_id == arriving.turn_id
                && self.function_call_id == arriving.function_call_id
                && self.function_id == arriving.function_id
                && self.arguments_excerpt == arriving.arguments_excerpt
        })
    }

    /// Which hold it is. A row of an older worker is known by its content.
    pub fn identity(&self) -> String {
        self.hold_id.clone().unwrap_or_else(|| {
            let hash = Sha256::digest(self.stored().to_string());
            hash.iter().fold("row:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
        })
    }

    /// The id under which its beginning and its end are told: the hold's own, without the digest that once stood behind it.
    pub fn event_id(&self) -> String {
        let random = self.hold_id.as_deref().and_then(|id| id.split(':').next());
        random.map_or_else(|| self.identity(), str::to_owned)
    }

    /// The key of the row that its own ids name.
    pub fn row(&self) -> String {
        format!("{}/{}", self.session_id, self.function_call_id)
    }

    /// Where it stands in the inbox.
    pub fn position(&self) -> Position {
        Position {
            pending_at: self.pending_at,
            session_id: self.session_id.clone(),
            function_call_id: self.function_call_id.clone(),
        }
    }

    /// The root that it asks for, if it asks for one.
    pub fn requested_root(&self) -> Option<&str> {
        let request = self.access_request.as_ref().filter(|_| self.kind == PendingKind::FilesystemAccess);
        request.map(|request| request.requested_root.as_str())
    }
}
