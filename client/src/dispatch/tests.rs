#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;
use crate::registry::{Function, OnTheSpot, Provider, Registry, TriggerType, handler};

const ID: &str = "a442f9e6-c8b9-4b9c-9909-485c2786f86c";

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn function(id: &str, handler: Handler) -> Function {
    Function {
        id: id.into(),
        description: String::new(),
        request_schema: json!({}),
        response_schema: json!({}),
        metadata: None,
        handler,
        on_the_spot: None,
    }
}

struct Bench {
    dispatch: Arc<Dispatch>,
    link: Arc<Link>,
    refusals: mpsc::Sender<Refusal>,
    refused: mpsc::Receiver<Refusal>,
}

impl Bench {
    fn new(registry: Registry, max_running: usize) -> Self {
        // No repetitions: these tests look at every frame.
        let (guard, _) = Guard::new(Duration::ZERO);
        let dispatch = Arc::new(Dispatch::new(Catalogue::new(registry), guard, max_running));
        let (refusals, refused) = mpsc::channel(8);
        Self { dispatch, link: Arc::new(Link::new(1)), refusals, refused }
    }

    fn with(functions: Vec<Function>) -> Self {
        Self::new(Registry { functions, ..Registry::default() }, 2)
    }

    fn receive(&self, text: &str) {
        self.dispatch.receive(&self.link, text, Instant::now(), &self.refusals);
    }

    fn call(&self, function_id: &str, data: &str) {
        self.receive(&format!(
            r#"{{"type":"invokefunction","invocation_id":"{ID}","function_id":"{function_id}","data":{data}}}"#
        ));
    }

    /// What was queued without anything having been awaited.
    fn sent(&self) -> Vec<Value> {
        self.link.outbound.take().now_or_never().flatten().map_or_else(Vec::new, |frames| parsed(&frames))
    }

    async fn next_sent(&self) -> Vec<Value> {
        parsed(&self.link.outbound.take().await.unwrap())
    }
}

fn parsed(frames: &[Message]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::from_str(frame.to_text().unwrap()).unwrap()).collect()
}

fn echo() -> Function {
    function("echo", handler(|invocation| async move { Ok(invocation.data) }))
}

#[tokio::test]
async fn a_handler_that_needs_nothing_is_answered_on_the_spot() {
    let bench = Bench::with(vec![echo()]);
    bench.call("echo", r#"{"n":1}"#);
    let expected =
        json!({"type":"invocationresult","invocation_id":ID,"function_id":"echo","result":{"n":1}});
    assert_eq!(bench.sent(), [expected]);
    assert_eq!(bench.dispatch.running(), 0);
}

#[tokio::test]
async fn what_is_known_on_the_spot_never_reaches_the_handler_and_the_rest_does() {
    let known: OnTheSpot = Arc::new(|data| match data.get() {
        "1" => Some(Arc::from(raw(&json!("known")))),
        "2" => panic!("looked badly"),
        _ => None,
    });
    let bench = Bench::with(vec![Function { on_the_spot: Some(known), ..echo() }]);
    for (data, result) in [("1", json!("known")), ("2", json!(2)), ("3", json!(3))] {
        bench.call("echo", data);
        let expected =
            json!({"type":"invocationresult","invocation_id":ID,"function_id":"echo","result":result});
        assert_eq!(bench.sent(), [expected]);
    }
    bench.receive(r#"{"type":"invokefunction","function_id":"echo","data":1}"#);
    assert!(bench.sent().is_empty(), "nobody wants that answer");
}

#[tokio::test]
async fn a_handler_that_waits_becomes_a_task_and_leaves_nothing_behind() {
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let waiting = handler(move |invocation| {
        let opened = Arc::clone(&opened);
        async move {
            opened.notified().await;
            Ok(invocation.data)
        }
    });
    let bench = Bench::with(vec![function("slow", waiting), echo()]);

    bench.call("slow", "1");
    assert_eq!((bench.sent().len(), bench.dispatch.running()), (0, 1));
    bench.call("echo", "2");
    assert_eq!(bench.sent()[0]["result"], 2, "the reader goes on");
    gate.notify_one();

    assert_eq!(bench.next_sent().await[0]["result"], 1);
    bench.dispatch.drained(Duration::from_secs(5)).await;
    assert_eq!(bench.dispatch.running(), 0);
}

#[tokio::test]
async fn a_function_that_we_do_not_have_is_answered() {
    let bench = Bench::with(vec![]);
    bench.call("nope", "{}");
    assert_eq!(bench.sent()[0]["error"], json!({"code":"function_not_found","message":"Function not found"}));
}

#[tokio::test]
async fn a_panic_becomes_an_answer_that_does_not_quote_it() {
    let at_once: Handler = Arc::new(|_| panic!("secret"));
    let later = handler(|_| async {
        tokio::task::yield_now().await;
        panic!("secret")
    });
    let bench = Bench::with(vec![function("at-once", at_once), function("later", later)]);
    for id in ["at-once", "later"] {
        bench.call(id, "{}");
        let answer = &bench.next_sent().await[0];
        assert_eq!(answer["error"]["code"], "invocation_failed");
        assert!(!answer.to_string().contains("secret"));
    }
    bench.dispatch.drained(Duration::from_secs(5)).await;
    assert_eq!(bench.dispatch.running(), 0);
}

#[tokio::test]
async fn without_an_invocation_id_the_handler_runs_and_nothing_is_answered() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let counting = handler(move |invocation| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok(invocation.data) }
    });
    let bench = Bench::with(vec![function("f", counting)]);
    bench.receive(r#"{"type":"invokefunction","invocation_id":null,"function_id":"f","data":{}}"#);
    bench.receive(r#"{"type":"invokefunction","function_id":"f","data":{}}"#);
    bench.receive(r#"{"type":"invokefunction","function_id":"nope","data":{}}"#);
    assert_eq!((runs.load(Ordering::SeqCst), bench.sent().len()), (2, 0));
}

#[tokio::test]
async fn a_call_that_cannot_be_read_is_answered_if_its_id_can() {
    let bench = Bench::with(vec![echo()]);
    bench.receive(&format!(r#"{{"type":"invokefunction","invocation_id":"{ID}","function_id":[]}}"#));
    let answer = &bench.sent()[0];
    assert_eq!(
        (&answer["invocation_id"], &answer["error"]["code"]),
        (&json!(ID), &json!("invocation_failed"))
    );
    bench.receive("garbage");
    assert!(bench.sent().is_empty());
}

#[tokio::test]
async fn a_million_nested_arrays_reach_the_handler_as_text() {
    let parsing = handler(|invocation| async move {
        match serde_json::from_str::<Value>(invocation.data.get()) {
            Ok(_) => Ok(invocation.data),
            Err(_) => Err(ErrorBody::new("approval/invalid_payload", "too deep")),
        }
    });
    let bench = Bench::with(vec![function("f", parsing)]);
    bench.call("f", &format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000)));
    assert_eq!(bench.sent()[0]["error"]["code"], "approval/invalid_payload");
}

#[tokio::test]
async fn an_answer_that_the_engine_would_drop_is_replaced_by_an_error() {
    let large = handler(|_| async { Ok(raw(&json!("x".repeat(17 << 20)))) });
    let deep = handler(|_| async { Ok(RawValue::from_string("[".repeat(130) + &"]".repeat(130)).unwrap()) });
    let wordy = handler(|_| async { Err(ErrorBody::new("c", "x".repeat(17 << 20))) });
    let bench = Bench::with(vec![function("large", large), function("deep", deep), function("wordy", wordy)]);
    for id in ["large", "deep", "wordy"] {
        bench.call(id, "{}");
        assert_eq!(bench.sent()[0]["error"]["code"], "invocation_failed", "{id}");
    }
}

#[tokio::test]
async fn calls_beyond_the_bound_are_refused_and_the_rest_go_on() {
    let forever = handler(|_| std::future::pending());
    let bench = Bench::with(vec![function("forever", forever)]);
    for _ in 0..3 {
        bench.call("forever", "{}");
    }
    let sent = bench.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0]["error"]["message"].as_str().unwrap().contains("overloaded"));
    bench.dispatch.abort().await;
    assert_eq!(bench.dispatch.running(), 0);
}

#[tokio::test]
async fn while_stopping_calls_are_answered_as_stopped() {
    let bench = Bench::with(vec![echo()]);
    bench.dispatch.stop();
    bench.call("echo", "{}");
    assert_eq!(bench.sent()[0]["error"]["code"], "invocation_stopped");
}

#[derive(Default)]
struct Listeners(Mutex<Vec<String>>);

impl Provider for Listeners {
    fn bind(&self, bind: Bind) -> Result<(), ErrorBody> {
        assert!(bind.config != "panic");
        if bind.config == json!({"refuse": true}) {
            return Err(ErrorBody::new("bad_config", "config.refuse is set"));
        }
        self.0.lock().unwrap().push(format!("bind {} {:?}", bind.id, bind.namespace));
        Ok(())
    }

    fn unbind(&self, id: &str) {
        self.0.lock().unwrap().push(format!("unbind {id}"));
    }

    fn reset(&self) {
        self.0.lock().unwrap().push("reset".into());
    }
}

fn providing(provider: Arc<dyn Provider>) -> Bench {
    let kind = TriggerType {
        id: "t".into(),
        description: "d".into(),
        config_schema: json!({}),
        payload_schema: None,
        provider,
    };
    Bench::new(Registry { trigger_types: vec![kind], ..Registry::default() }, 1)
}

fn bind(id: &str, kind: &str, config: &str) -> String {
    format!(
        r#"{{"type":"registertrigger","id":"{id}","trigger_type":"{kind}","function_id":"f","config":{config}}}"#
    )
}

#[tokio::test]
async fn bindings_are_given_to_the_provider_and_its_verdict_is_sent() {
    let listeners = Arc::new(Listeners::default());
    let bench = providing(Arc::clone(&listeners) as _);
    bench.receive(&bind("a", "t", "null"));
    bench.receive(&bind("b", "t", r#"{"refuse":true}"#));
    bench.receive(&bind("c", "unknown", "{}"));
    bench.receive(r#"{"type":"unregistertrigger","id":"a","trigger_type":"t"}"#);
    bench.receive(r#"{"type":"unregistertrigger","id":"x","trigger_type":"unknown"}"#);
    bench.dispatch.reset_providers();

    let verdict = |id: &str, kind: &str| json!({"type":"triggerregistrationresult","id":id,"trigger_type":kind,"function_id":"f"});
    let refused = |mut verdict: Value, code: &str, message: &str| {
        verdict["error"] = json!({"code":code,"message":message});
        verdict
    };
    assert_eq!(
        bench.sent(),
        [
            verdict("a", "t"),
            refused(verdict("b", "t"), "bad_config", "config.refuse is set"),
            refused(verdict("c", "unknown"), "trigger_type_not_found", "Trigger type not found"),
        ]
    );
    assert_eq!(*listeners.0.lock().unwrap(), ["bind a None", "unbind a", "reset"]);
}

#[tokio::test]
async fn a_binding_that_cannot_be_read_is_refused_and_drops_its_older_version() {
    let listeners = Arc::new(Listeners::default());
    let bench = providing(Arc::clone(&listeners) as _);
    bench.receive(&bind("a", "t", &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))));
    assert_eq!(bench.sent()[0]["error"]["code"], "trigger_registration_failed");
    assert_eq!(*listeners.0.lock().unwrap(), ["unbind a"]);
}

#[tokio::test]
async fn a_provider_that_panics_refuses() {
    let bench = providing(Arc::new(Listeners::default()));
    bench.receive(&bind("a", "t", r#""panic""#));
    assert_eq!(bench.sent()[0]["error"]["code"], "trigger_registration_failed");
}

#[tokio::test]
async fn refusals_of_our_registrations_reach_the_session() {
    let mut bench = Bench::with(vec![]);
    bench.receive(
        r#"{"type":"triggerregistrationresult","id":"b","error":{"code":"trigger_type_not_found","message":"m"}}"#,
    );
    bench.receive(r#"{"type":"triggerregistrationresult","id":"accepted"}"#);
    bench.receive(
        r#"{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","function_id":"f","owner_worker_id":"w"}"#,
    );
    let mut refused = || bench.refused.try_recv().map(|refusal| refusal.what).ok();
    assert_eq!(refused(), Some(Registration::Binding("b".into())));
    assert_eq!(refused(), Some(Registration::Function("f".into())));
    assert_eq!(refused(), None);
}

#[tokio::test]
async fn a_taken_name_and_a_refused_handshake_end_the_link() {
    let bench = Bench::with(vec![]);
    bench.receive(
        r#"{"type":"registrationrejected","code":"WORKER_NAMESPACE_CONFLICT","owner_worker_id":"w"}"#,
    );
    assert_eq!(bench.link.ended().await, Ending::NameTaken { owner_worker_id: "w".into() });
    let bench = Bench::with(vec![]);
    bench.receive(r#"{"type":"error","error":{"code":"AUTH_ERROR","message":"no"}}"#);
    assert!(matches!(bench.link.ended().await, Ending::Lost(reason) if reason.contains("AUTH_ERROR")));
}

#[tokio::test]
async fn an_engine_ping_is_answered() {
    let bench = Bench::with(vec![]);
    bench.receive(r#"{"type":"ping"}"#);
    assert_eq!(bench.sent(), [json!({"type":"pong"})]);
}
