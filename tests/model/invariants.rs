//! What must be so once everything has settled.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use approval_gate::wire::record::{PendingApprovalRecord, StoredRow};

use crate::history::{Audited, End, Heard, History};
use crate::world::Inner;

fn live(inner: &Inner) -> Vec<(String, PendingApprovalRecord)> {
    let rows = inner.store.rows("approval_pending");
    rows.into_iter().filter_map(|(key, value)| Some((key, StoredRow::read(&value).live()?))).collect()
}

/// Records and parked calls belong together; settings that were acknowledged are there.
pub fn while_turns_run(inner: &mut Inner) {
    let records: BTreeMap<_, _> = live(inner).into_iter().collect();
    let parked = inner.harness.parked();
    let mut wrong = Vec::new();
    for about in &parked {
        let record = records.get(&about.row());
        if record.is_none_or(|record| !about.is_held_by(record)) {
            wrong.push(format!("no-record: {about:?} is parked and has no record"));
        }
    }
    for (row, record) in &records {
        if !parked.iter().any(|about| about.is_held_by(record)) && !may_be_left(&inner.history, record) {
            wrong.push(format!(
                "stray-record: {row} has a record of turn {} and is not parked",
                record.turn_id
            ));
        }
    }
    for grown in &inner.history.grown {
        let wiped = inner.history.wiped.iter();
        if wiped.clone().any(|(session, over)| *session == grown.session && *over > grown.began) {
            continue;
        }
        let settings = inner.store.row("approval_settings", &grown.session);
        let lists = ["always_allow", "approved_always"].map(|list| settings[list].as_array().cloned());
        let mut entries = lists.into_iter().flatten().flatten();
        if !entries.any(|entry: Value| entry["function_id"] == grown.function.as_str()) {
            wrong.push(format!(
                "lost-setting: {} was acknowledged for {} and is lost",
                grown.function, grown.session
            ));
        }
    }
    for what in wrong {
        inner.history.violated(what);
    }
}

/// A record may be left of a call whose hook or whose release was not answered, and of a turn whose end was not told:
/// nobody can know of these but the harness, which reconciling asks.
fn may_be_left(history: &History, record: &PendingApprovalRecord) -> bool {
    let hold = record.hold_id.clone().unwrap_or_default();
    history.unanswered.iter().any(|call| record.is_of_call(call) == Some(true))
        || history.may_not_know(&format!("{}/{}", record.session_id, record.turn_id))
        || history.decisions.iter().any(|one| one.hold.as_ref() == Some(&hold) && one.end == End::Unanswered)
        || history.holds.get(&hold).is_some_and(|known| {
            // Being taken back when its worker died, or written and not told to anybody.
            known.overtaken || (!history.parked.contains(&hold) && history.is_dead(known.generation))
        })
}

/// All turns are over and were told: nothing is left, and every hold had one life.
pub fn when_all_is_over(inner: &mut Inner) {
    let mut wrong = Vec::new();
    for (row, value) in inner.store.rows("approval_pending") {
        // A null names no key in a list: one that a crash left lies there for ever and harms nobody.
        if !value.is_null() || inner.history.crashes == 0 {
            wrong.push(format!("left-row: {row} is left: {value}"));
        }
    }
    let history = &inner.history;
    for (id, hold) in &history.holds {
        let of_hold = |heard: &&Heard| heard.hold.as_ref() == Some(id);
        let created = history.heard.iter().filter(of_hold).filter(|heard| heard.created).count();
        let ends: Vec<_> = history.heard.iter().filter(of_hold).filter(|heard| !heard.created).collect();
        let ids: BTreeSet<_> = ends.iter().map(|heard| &heard.event_id).collect();
        let broken = history.crashes + history.cuts > 0;
        if created > 1 {
            wrong.push(format!("created-twice: {id} of {} was created {created} times", hold.row));
        }
        if history.parked.contains(id) && created == 0 && !broken {
            wrong.push(format!("never-told: {id} of {} was never told", hold.row));
        }
        if ids.len() > 1 || (ends.len() > 1 && !broken) {
            wrong.push(format!("two-ends: {id} of {} ended {} times as {ids:?}", hold.row, ends.len()));
        }
        if created == 1 && ends.is_empty() {
            wrong.push(format!("no-end: {id} of {} was created and never ended", hold.row));
        }
        if created == 0 && !ends.is_empty() && !broken {
            wrong.push(format!("end-alone: {id} of {} ended and was never told", hold.row));
        }
        let taken = history.decisions.iter().find(|one| one.took && one.hold.as_ref() == Some(id));
        if let (Some(taken), Some(end)) = (taken, ends.first())
            && taken.end == End::Answered
            && end.outcome != if taken.allow { "allow" } else { "deny" }
        {
            wrong.push(format!("wrong-outcome: {id} of {} was told as {}", hold.row, end.outcome));
        }
    }
    wrong.extend(out_of_order(history));
    wrong.extend(unaudited(history));
    for what in wrong {
        inner.history.violated(what);
    }
}

/// A hold is asked about once and decided once in the audit, in this order and with the outcome of its resolved event.
fn unaudited(history: &History) -> Vec<String> {
    let mut wrong = Vec::new();
    let broken = history.crashes + history.cuts > 0;
    let ids = history.holds.keys().chain(history.audited.iter().map(|entry| &entry.event_id));
    for id in ids.collect::<BTreeSet<_>>() {
        let entries: Vec<&Audited> = history.audited.iter().filter(|entry| entry.event_id == *id).collect();
        let told: Vec<_> = history.heard.iter().filter(|heard| heard.hold.as_ref() == Some(id)).collect();
        let (asked, decided): (Vec<&Audited>, Vec<&Audited>) = entries.iter().partition(|entry| entry.asked);
        let ended = told.iter().any(|heard| !heard.created);
        let complete = asked.len() == 1 && decided.len() == 1 && entries[0].asked;
        if asked.len() > 1 || entries.iter().skip(1).any(|entry| entry.asked) {
            wrong.push(format!("audit: {id} was asked about twice, or late: {entries:?}"));
        }
        if (ended && decided.is_empty()) || (!broken && !told.is_empty() && !complete) {
            wrong.push(format!("audit: {id} has {entries:?}, and events {told:?}"));
        }
        let outcomes = decided.iter().map(|entry| &entry.outcome);
        let ends = told.iter().filter(|heard| !heard.created).map(|heard| &heard.outcome);
        if outcomes.chain(ends).collect::<BTreeSet<_>>().len() > 1 {
            wrong.push(format!("audit: {id} ended in two ways: {entries:?}, {told:?}"));
        }
    }
    wrong
}

/// For a listener, a hold is created before it ends, and ends before the next of its call is created.
fn out_of_order(history: &History) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut open: BTreeMap<&str, &str> = BTreeMap::new();
    let mut ended: BTreeSet<&str> = BTreeSet::new();
    for heard in &history.heard {
        let Some(hold) = heard.hold.as_deref() else {
            wrong.push(format!("order: an event of {} belongs to no hold", heard.row));
            continue;
        };
        if heard.created {
            if ended.contains(hold) {
                wrong.push(format!("order: {hold} of {} ended before it was created", heard.row));
            }
            if let Some(other) = open.insert(&heard.row, hold) {
                wrong.push(format!("order: {hold} of {} was created before {other} ended", heard.row));
            }
        } else {
            ended.insert(hold);
            if open.get(heard.row.as_str()) == Some(&hold) {
                open.remove(heard.row.as_str());
            }
        }
    }
    wrong
}
