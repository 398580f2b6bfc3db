//! What ours answers to an observation: as it was seen, unless the contract says otherwise.

use serde_json::{Value, json};

/// What is compared; `None` is not compared.
pub struct Expectation {
    /// A configuration that is in force before the steps, to be seen to stay.
    pub good_before: Option<Value>,
    pub reply: Value,
    /// In place of `reply`: any of these decisions.
    pub decisions: Option<Vec<&'static str>>,
    /// The error's message has at least one of these words; an empty list is satisfied by any message.
    pub error_names: Option<Vec<String>>,
    pub setup_replies: Option<Vec<Value>>,
    pub events: Option<Vec<Value>>,
    /// The order between the two listeners is part of the expectation.
    pub in_order: bool,
    pub sibling_calls: Option<Vec<Value>>,
    pub rows: Vec<Value>,
    /// Texts that no event and no row may show.
    pub hidden: &'static [&'static str],
}

/// Lines without `departs` that the contract contradicts or leaves open, each with its reason.
const AGAINST_THE_LINE: &[(&str, &str)] = &[
    ("seed-jumps-over-earlier-deny", "§1.7: a seeded entry counts only if the rules do not deny the call"),
    ("approve-human-only-id", "§5: an id that names a human-only function is refused"),
    (
        "remove-human-only-id",
        "§5 refuses the id, but taking such an entry out does no harm: both are accepted",
    ),
    ("deny-reason-empty", "§3: the event carries the operator's own reason; an empty one may be left out"),
    ("fs-deny-reason-empty", "§3: the event carries the operator's own reason; an empty one may be left out"),
    ("bad-double-bang-before-deny", "§1: `!!` makes the whole value refused; the last good one stays"),
    (
        "bad-bang-space-before-deny",
        "§1: a padded pattern makes the whole value refused; the last good one stays",
    ),
    ("matches-dot-newline", "§10: a line feed is a control character, and made visible in the excerpt"),
    ("resolve-foreign-row", "§2: a row whose ids are not those of its key may be skipped as unreadable"),
];

/// Required fields of each function, one of which an error about a missing one names.
const REQUIRED: &[(&str, &[&str])] = &[
    ("approval::resolve", &["session_id", "function_call_id", "decision"]),
    ("approval::get-pending", &["session_id", "function_call_id"]),
    ("approval::set-mode", &["session_id", "mode"]),
    ("approval::add-always-allow", &["session_id", "function_id"]),
    ("approval::remove-always-allow", &["session_id", "function_id"]),
    ("approval::approve-always", &["session_id", "function_id"]),
    ("approval::get-settings", &["session_id"]),
    ("approval::clear-settings", &["session_id"]),
    ("approval::on-turn-completed", &["turn_id"]),
    ("approval::on-session-deleted", &["session_id"]),
    ("approval::list-pending", &["limit", "cursor", "metadata", "session_id"]),
];

impl Expectation {
    pub fn of(line: &Value) -> Self {
        let list = |key: &str| line.get(key).map(|value| value.as_array().unwrap().clone());
        let as_seen = Self {
            good_before: None,
            reply: expected_reply(line, &line["observed"]),
            decisions: None,
            error_names: error_names(line),
            setup_replies: list("setup_observed"),
            events: list("events"),
            in_order: false,
            sibling_calls: list("sibling_calls"),
            rows: list("state_after").unwrap_or_default(),
            hidden: &[],
        };
        let id = line["id"].as_str().unwrap();
        if line.get("departs").is_some() || AGAINST_THE_LINE.iter().any(|(known, _)| *known == id) {
            return as_seen.departing(id, line);
        }
        as_seen
    }

    fn departing(mut self, id: &str, line: &Value) -> Self {
        let session = format!("s_{id}");
        match id {
            _ if line["area"] == "rules-bad" => self.last_good_stays(),
            _ if line["area"] == "errors" => self.hook_or_error(line),
            "gate-string" | "gate-no-turn" | "gate-session-number" | "gate-call-string" => self.denies(),
            "gate-depth-float" | "gate-metadata-array" | "gate-result-odd" => self.never_continues(),
            "rule-glob-newline-deny" => self.denies(),
            "door-state-set-settings" | "door-harness-resolve" => self.denies_as_human_only(),
            "stored-bad-mode-default-full" | "seed-with-args-widens" => self.holds(),
            "seed-with-args-widens-after-set-mode" => {
                self.setup_replies =
                    Some(vec![json!({"result": {"settings": {"mode": "auto", "always_allow": []}}})]);
                self.holds()
            }
            "seed-jumps-over-earlier-deny" => self.denies(),
            "matches-dot-newline" => self.holds(),
            "hold-again-after-allow" => self.continues(),
            "seed-args-rule" => {
                self.reply = json!({"result": {"source": "defaults", "settings": {"always_allow": []}}});
                self
            }
            "approve-human-only-id" => self.refuses("approval/invalid_payload", &session, Value::Null),
            "remove-human-only-id" => {
                self.reply = json!({});
                self.rows.clear();
                self
            }
            "get-row-folder-access" => {
                self.reply = json!({"result": {"pending": older_folder_record(&session)}});
                self
            }
            "list-old-record" => {
                self.reply = json!({"result": {"pending": [{"session_id": session, "function_call_id": "c_1",
                                                            "kind": "function"}]}});
                self
            }
            "deny-reason-empty" | "fs-deny-reason-empty" => {
                self.without_empty_reason();
                self
            }
            "harness-reply-resolved-false" => {
                self.reply = json!({"result": {"resolved": false}});
                self.events = Some(vec![ended(&session, "aborted")]);
                self
            }
            "resolve-folder-access-row" => self.releases_older_folder_record(&session),
            "resolve-foreign-row" => self.either_way(),
            "watch-content-image" | "watch-content-string" => self.any_of(&["hold", "continue"]),
            "watch-result-success-error-string"
            | "watch-workspace-trailing-slash"
            | "watch-root-slash"
            | "watch-grants-trailing" => self.stands_down(),
            "watch-redelivered-other-path" | "watch-redelivered-other-root" => self.replaces(&session),
            "gate-over-watch-hold" => self.replaces_with_function_hold(&session),
            "turn-fired" => self.spares_other_session(&session),
            "reload-bad-null" => self.denies(),
            _ if line["area"] == "redaction" => self.redacts(id),
            other => panic!("{other} departs, but no expectation says how"),
        }
    }

    fn answers(mut self, reply: Value) -> Self {
        self.reply = json!({"result": reply});
        self.error_names = None;
        self
    }

    fn denies(self) -> Self {
        self.answers(json!({"decision": "deny", "reason": "<text naming the cause>"})).leaves_nothing()
    }

    fn denies_as_human_only(self) -> Self {
        self.answers(json!({"decision": "deny", "reason": "<text naming human_only_function>"}))
            .leaves_nothing()
    }

    fn continues(self) -> Self {
        self.answers(json!({"decision": "continue"})).leaves_nothing()
    }

    fn leaves_nothing(mut self) -> Self {
        self.events = Some(Vec::new());
        self.sibling_calls = None;
        self.rows.retain(|row| row["scope"] != "approval_pending");
        self
    }

    fn holds(mut self) -> Self {
        self = self.answers(json!({"decision": "hold"}));
        self.events =
            Some(vec![json!({"listener": "created", "payload": {"status": "pending", "kind": "function"}})]);
        self.sibling_calls = None;
        self
    }

    fn any_of(mut self, decisions: &[&'static str]) -> Self {
        self.decisions = Some(decisions.to_vec());
        self.error_names = None;
        self.events = None;
        self.sibling_calls = None;
        self.rows.clear();
        self
    }

    fn never_continues(self) -> Self {
        self.any_of(&["deny", "hold"])
    }

    fn stands_down(mut self) -> Self {
        self = self.answers(json!({"decision": "continue"}));
        self.events = Some(Vec::new());
        self.sibling_calls = None;
        for row in &mut self.rows {
            row["value"] = Value::Null;
        }
        self
    }

    /// The targets of these lines are `shell::exec` and `state::set`: the rules before deny both.
    fn last_good_stays(mut self) -> Self {
        self.good_before = Some(json!({"rules": ["!shell::exec", "!state::set"]}));
        self.denies()
    }

    fn hook_or_error(self, line: &Value) -> Self {
        match line["call"]["function_id"].as_str() {
            Some("approval::gate") => self.denies(),
            Some("approval::filesystem-access-watch") => self.stands_down(),
            _ => self,
        }
    }

    fn refuses(mut self, code: &str, session: &str, row: Value) -> Self {
        self.reply = json!({"error": {"code": code, "message": "<text naming the cause>"}});
        self.rows = vec![json!({"scope": "approval_settings", "key": session, "value": row})];
        self
    }

    fn without_empty_reason(&mut self) {
        for event in self.events.iter_mut().flatten() {
            if let Some(payload) = event["payload"].as_object_mut() {
                payload.remove("reason");
            }
        }
    }

    fn releases_older_folder_record(mut self, session: &str) -> Self {
        self.reply = json!({"result": {"resolved": true, "turn_resumed": true}});
        self.events = Some(vec![ended(session, "allow")]);
        self.sibling_calls = Some(vec![json!({"function_id": "harness::function::resolve", "payload": {
            "session_id": session, "function_call_id": "c_1", "action": "execute", "fs_scope": {"grants": ["/a"]}}})]);
        self.rows =
            vec![json!({"scope": "approval_pending", "key": format!("{session}/c_1"), "value": null})];
        self
    }

    fn either_way(mut self) -> Self {
        self.reply = json!({});
        self.events = None;
        self.sibling_calls = None;
        self.rows.clear();
        self
    }

    /// The older hold's end comes first: consumers clear cards by call id alone.
    fn replaces(mut self, session: &str) -> Self {
        self.events.get_or_insert_default().insert(0, ended(session, "aborted"));
        self.in_order = true;
        self
    }

    fn replaces_with_function_hold(mut self, session: &str) -> Self {
        let created = json!({"session_id": session, "function_call_id": "c_1", "kind": "function"});
        self.events =
            Some(vec![ended(session, "aborted"), json!({"listener": "created", "payload": created.clone()})]);
        self.in_order = true;
        self.sibling_calls = None;
        self.rows =
            vec![json!({"scope": "approval_pending", "key": format!("{session}/c_1"), "value": created})];
        self
    }

    fn spares_other_session(mut self, session: &str) -> Self {
        self.events = Some(vec![ended(session, "aborted")]);
        let other = format!("{session}_b/c_1");
        for row in self.rows.iter_mut().filter(|row| row["key"] == other.as_str()) {
            row["value"] = json!({"session_id": format!("{session}_b"), "function_call_id": "c_1"});
        }
        self
    }

    fn redacts(mut self, id: &str) -> Self {
        let excerpt = match id {
            "redact-camel" => {
                json!({"apiKey": "<redacted>", "accessToken": "<redacted>", "clientSecret": "<redacted>"})
            }
            "redact-others" => {
                json!({"passwd": "<redacted>", "pwd": "<redacted>", "cookie": "<redacted>", "credentials": "<redacted>"})
            }
            "redact-pair-data" => json!({"headers": [{"name": "Authorization", "value": "<redacted>"}]}),
            // Within strings only what may not be there is fixed.
            _ => json!({}),
        };
        self.hidden = match id {
            "redact-url-userinfo" => &[":pass@"],
            "redact-pem" => &["MIIB"],
            "redact-token-shapes" => {
                &["0123456789abcdefghijklmnopqrstuvwxyz", "AKIAIOSFODNN7EXAMPLE", "sk-ant-REDACTED"]
            }
            _ => &["Bearer x"],
        };
        for event in self.events.iter_mut().flatten() {
            event["payload"]["arguments_excerpt"] = excerpt.clone();
        }
        for row in &mut self.rows {
            row["value"]["arguments_excerpt"] = excerpt.clone();
        }
        self
    }
}

/// The words of the published worker's errors in ours.
pub fn expected_reply(line: &Value, observed: &Value) -> Value {
    let mut reply = observed.clone();
    if reply["result"].get("next_cursor").is_some_and(Value::is_string) {
        // Opaque: only that there is one matters.
        reply["result"]["next_cursor"] = "<text of the cursor>".into();
    }
    if reply["error"]["code"] == "invocation_failed" {
        let code = match line["id"].as_str() {
            Some("harness-absent") => "approval/harness_unavailable",
            _ => "approval/invalid_payload",
        };
        reply["error"]["code"] = code.into();
    }
    reply
}

fn error_names(line: &Value) -> Option<Vec<String>> {
    line["observed"].get("error")?;
    if line["id"] == "harness-absent" {
        return None;
    }
    let call = &line["call"];
    if call["do"] == "bind" {
        let keys = call["config"].as_object().map(|config| config.keys().cloned().collect());
        return Some(keys.unwrap_or_default());
    }
    if !call["payload"].is_object() {
        return Some(Vec::new());
    }
    let required = REQUIRED.iter().find(|(function_id, _)| call["function_id"] == *function_id);
    Some(
        required
            .map(|(_, fields)| fields.iter().map(|field| (*field).to_owned()).collect())
            .unwrap_or_default(),
    )
}

fn ended(session: &str, outcome: &str) -> Value {
    json!({"listener": "resolved", "payload": {"session_id": session, "function_call_id": "c_1", "outcome": outcome}})
}

fn older_folder_record(session: &str) -> Value {
    json!({"session_id": session, "function_call_id": "c_1", "kind": "filesystem_access",
           "access_request": {"requested_root": "/a", "attempted_path": "/a/b", "error_code": "S215"}})
}
