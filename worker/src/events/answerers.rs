//! Who is asked before a person is: the bindings of `approval::answerer`, in the order in which they are asked.
//!
//! The order is total: by priority, lower first, then by the binding's id. It depends on nothing else, so that an
//! operator can read it off a list of bindings. Each answerer answers a bounded number of questions at a time; what that
//! bound keeps away from a slow one is for the next, and for a person.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::hold::contains_all;
use crate::iii::{Bind, ErrorBody, Provider};
use crate::policy::pattern;
use crate::wire::answerer::AnswererConfig;
use crate::wire::error::{INVALID_PAYLOAD, InvalidPayload};

/// How many bindings there may be.
const MAX_BINDINGS: usize = 10_000;
/// How large one may be, in bytes of ids and config.
const MAX_BINDING_BYTES: usize = 16 * 1024;
/// How many questions one answerer has before it at a time.
const MAX_IN_FLIGHT: usize = 64;

/// One answerer.
#[derive(Debug)]
pub struct Answerer {
    /// The id of its binding.
    pub binding_id: String,
    /// What to call.
    pub function_id: String,
    /// Handed to it beside each question.
    pub metadata: Option<Box<RawValue>>,
    /// Where its function lives; absent means the default namespace.
    pub namespace: Option<String>,
    config: AnswererConfig,
    free: Semaphore,
}

impl Answerer {
    /// Whether it is to be asked about calls of sessions with this metadata.
    pub fn is_about(&self, metadata: Option<&Map<String, Value>>) -> bool {
        self.config.metadata.as_ref().is_none_or(|wanted| contains_all(wanted, metadata))
    }

    /// How long its answer is waited for.
    pub fn timeout(&self) -> Duration {
        self.config.timeout()
    }

    /// The right to put one more question to it; `None` while it has 64 before it.
    pub fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.free.try_acquire().ok()
    }

    fn is_about_function(&self, function_id: &str) -> bool {
        let functions = self.config.functions.as_ref();
        functions.is_none_or(|patterns| patterns.iter().any(|one| pattern::matches(one, function_id)))
    }
}

/// The place in the row: priority, binding id.
type Place = (i64, String);
type Row = BTreeMap<Place, Arc<Answerer>>;

/// All answerers. Ids are global to the engine: the same id again replaces.
#[derive(Default)]
pub struct Answerers {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    by_id: HashMap<String, Arc<Answerer>>,
    /// Those whose binding names a session.
    by_session: HashMap<String, Row>,
    /// Those whose binding does not.
    of_any_session: Row,
}

impl Answerers {
    /// Those to be asked about a call of this function in this session, in their order. What they say of the session's
    /// metadata is still to be compared: see [`Answerer::is_about`].
    pub fn candidates(&self, session_id: &str, function_id: &str) -> Vec<Arc<Answerer>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let of_session = inner.by_session.get(session_id).into_iter().flatten();
        let mut found: Vec<(&Place, &Arc<Answerer>)> = of_session
            .chain(&inner.of_any_session)
            .filter(|(_, answerer)| answerer.is_about_function(function_id))
            .collect();
        found.sort_unstable_by_key(|(place, _)| *place);
        found.into_iter().map(|(_, answerer)| Arc::clone(answerer)).collect()
    }

    /// Whether this very binding still stands: not unbound, not replaced, not of a connection that is gone.
    pub fn stands(&self, answerer: &Arc<Answerer>) -> bool {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.by_id.get(&answerer.binding_id).is_some_and(|standing| Arc::ptr_eq(standing, answerer))
    }
}

impl Inner {
    fn row(&mut self, session_id: Option<&String>) -> &mut Row {
        match session_id {
            Some(session_id) => self.by_session.entry(session_id.clone()).or_default(),
            None => &mut self.of_any_session,
        }
    }

    fn insert(&mut self, answerer: Answerer) {
        let place = (answerer.config.priority(), answerer.binding_id.clone());
        let answerer = Arc::new(answerer);
        self.row(answerer.config.session_id.as_ref()).insert(place, Arc::clone(&answerer));
        self.by_id.insert(answerer.binding_id.clone(), answerer);
    }

    fn remove(&mut self, id: &str) {
        let Some(answerer) = self.by_id.remove(id) else { return };
        let session_id = answerer.config.session_id.as_ref();
        let row = self.row(session_id);
        row.remove(&(answerer.config.priority(), id.to_owned()));
        if let (true, Some(session_id)) = (row.is_empty(), session_id) {
            self.by_session.remove(session_id);
        }
    }
}

impl Provider for Answerers {
    /// Accepts or refuses a binding. A refused one also ends the older binding of its id: the engine has dropped it.
    fn bind(&self, bind: Bind) -> Result<(), ErrorBody> {
        let bytes = bind.id.len() + bind.function_id.len() + bind.config.to_string().len();
        let config = if bytes > MAX_BINDING_BYTES {
            Err(InvalidPayload::new("config", "the binding is larger than 16 KiB"))
        } else {
            AnswererConfig::read(&bind.config)
        };
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.remove(&bind.id);
        if inner.by_id.len() >= MAX_BINDINGS {
            return Err(ErrorBody::new(INVALID_PAYLOAD, "there are 10,000 bindings of this type already"));
        }
        let config = config.map_err(|invalid| ErrorBody::new(INVALID_PAYLOAD, invalid.to_string()))?;
        inner.insert(Answerer {
            binding_id: bind.id,
            function_id: bind.function_id,
            metadata: bind.metadata,
            namespace: bind.namespace,
            config,
            free: Semaphore::new(MAX_IN_FLIGHT),
        });
        Ok(())
    }

    fn unbind(&self, id: &str) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn reset(&self) {
        *self.inner.write().unwrap_or_else(PoisonError::into_inner) = Inner::default();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn bind(id: &str, config: Value) -> Bind {
        Bind { id: id.into(), function_id: format!("f::{id}"), config, metadata: None, namespace: None }
    }

    fn ids(answerers: &Answerers, session_id: &str, function_id: &str) -> Vec<String> {
        let found = answerers.candidates(session_id, function_id);
        found.iter().map(|answerer| answerer.binding_id.clone()).collect()
    }

    #[test]
    fn answerers_are_asked_by_priority_and_then_by_the_binding_s_id() {
        let answerers = Answerers::default();
        for (id, config) in [
            ("b", json!({})),
            ("late", json!({"priority": 5})),
            ("a", json!({"session_id": "s", "priority": 0})),
            ("first", json!({"priority": -1})),
            ("c", json!({"functions": ["shell::*", "x"]})),
            ("other", json!({"session_id": "s_2"})),
            ("never", json!({"functions": ["db::*"]})),
        ] {
            answerers.bind(bind(id, config)).unwrap();
        }
        assert_eq!(ids(&answerers, "s", "shell::exec"), ["first", "a", "b", "c", "late"]);
        assert_eq!(ids(&answerers, "s_2", "db::q"), ["first", "b", "never", "other", "late"]);
    }

    #[test]
    fn metadata_is_compared_as_listeners_compare_it() {
        let answerers = Answerers::default();
        answerers.bind(bind("a", json!({"metadata": {"tenant": "acme"}}))).unwrap();
        let answerer = answerers.candidates("s", "f").remove(0);
        let about = |metadata: Value| answerer.is_about(metadata.as_object());
        assert!(about(json!({"tenant": "acme", "more": 1})));
        assert!(!about(json!({"tenant": "acme-eu"})) && !about(Value::Null));
    }

    #[test]
    fn the_same_id_replaces_and_a_refusal_ends_the_older_binding() {
        let answerers = Answerers::default();
        answerers.bind(bind("a", json!({"session_id": "s"}))).unwrap();
        let older = answerers.candidates("s", "f").remove(0);
        assert!(answerers.stands(&older));
        answerers.bind(bind("a", json!({"priority": 3}))).unwrap();
        assert!(!answerers.stands(&older));
        assert_eq!(ids(&answerers, "any", "f"), ["a"]);
        let refusal = answerers.bind(bind("a", json!({"priorty": 3}))).unwrap_err();
        assert!(refusal.message.contains("priorty"), "{}", refusal.message);
        assert!(ids(&answerers, "any", "f").is_empty());
        let large = json!({"functions": vec!["x".repeat(500); 40]});
        assert!(answerers.bind(bind("a", large)).unwrap_err().message.contains("16 KiB"));
    }

    #[test]
    fn unbinding_and_a_new_connection_leave_nothing() {
        let answerers = Answerers::default();
        answerers.bind(bind("a", json!({"session_id": "s"}))).unwrap();
        answerers.unbind("a");
        answerers.unbind("unknown");
        assert!(answerers.inner.read().unwrap().by_session.is_empty());
        answerers.bind(bind("b", Value::Null)).unwrap();
        let standing = answerers.candidates("s", "f").remove(0);
        answerers.reset();
        assert!(ids(&answerers, "s", "f").is_empty() && !answerers.stands(&standing));
    }

    #[test]
    fn one_answerer_has_so_many_questions_before_it_and_no_more() {
        let answerers = Answerers::default();
        answerers.bind(bind("a", Value::Null)).unwrap();
        let answerer = answerers.candidates("s", "f").remove(0);
        let mut turns: Vec<_> = (0..MAX_IN_FLIGHT).map(|_| answerer.turn().unwrap()).collect();
        assert!(answerer.turn().is_none());
        turns.pop();
        assert!(answerer.turn().is_some());
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_is_bound_in_its_order(
            steps in prop::collection::vec((0..6_u8, -1..2_i64, 0..3_u8, any::<bool>()), 0..30)
        ) {
            let answerers = Answerers::default();
            let mut expected: BTreeMap<String, (i64, Option<String>)> = BTreeMap::new();
            for (id, priority, session, is_bound) in steps {
                let id = format!("b{id}");
                if !is_bound {
                    answerers.unbind(&id);
                    expected.remove(&id);
                    continue;
                }
                let session = (session > 0).then(|| format!("s{session}"));
                answerers.bind(bind(&id, json!({"priority": priority, "session_id": session}))).unwrap();
                expected.insert(id, (priority, session));
            }
            let mut wanted: Vec<(i64, String)> = expected
                .into_iter()
                .filter(|(_, (_, session))| session.as_ref().is_none_or(|session| session == "s1"))
                .map(|(id, (priority, _))| (priority, id))
                .collect();
            wanted.sort();
            let wanted: Vec<String> = wanted.into_iter().map(|(_, id)| id).collect();
            prop_assert_eq!(ids(&answerers, "s1", "f"), wanted);
        }
    }
}
