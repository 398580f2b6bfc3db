//! The worker is killed at each named point of hold, resolve and purge, and started again.
//!
//! A point is a frame that the worker writes, and a side of it: before, the engine never saw the frame; after, the engine
//! has carried it out and the worker never learnt. What one frame brings the worker is a point too: it is the one before the
//! next frame. After each point three ways to go on are tried, so that nothing that a crash leaves can get stuck.

use serde_json::{Value, json};

use crate::relay::When::{self, After, Before};
use crate::support::siblings::RESOLVE;
use crate::support::stage::{ON_CREATED, ON_RESOLVED, PENDING};
use crate::support::{eventually, wait::within};
use crate::world::{World, ask_gate};

/// What the worker was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Hold,
    Allow,
    Deny,
    TurnEnd,
}

/// A frame that the worker writes while it does that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    SettingsRead,
    RowRead,
    SessionRead,
    RecordWrite,
    CreatedEvent,
    Decision,
    Marker,
    ResolvedEvent,
    MarkerDelete,
    Answer,
}

/// What must be there after the crash, when the worker serves again and nobody has done anything yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing is held and nobody was told.
    Nothing,
    /// A live record that the inbox shows; the harness was told of no decision.
    Held,
    /// A live record although the harness has carried a decision out: it is settled by whatever comes next.
    HeldButDecided,
    /// No record, and the resolved event was told, once by its id.
    Over,
}

struct Row {
    doing: Doing,
    when: When,
    frame: Frame,
    left: Left,
}

const fn row(doing: Doing, when: When, frame: Frame, left: Left) -> Row {
    Row { doing, when, frame, left }
}

const POINTS: &[Row] = &[
    row(Doing::Hold, Before, Frame::SettingsRead, Left::Nothing),
    row(Doing::Hold, After, Frame::SettingsRead, Left::Nothing),
    row(Doing::Hold, Before, Frame::SessionRead, Left::Nothing),
    row(Doing::Hold, After, Frame::SessionRead, Left::Nothing),
    row(Doing::Hold, Before, Frame::RecordWrite, Left::Nothing),
    row(Doing::Hold, After, Frame::RecordWrite, Left::Held),
    row(Doing::Hold, Before, Frame::CreatedEvent, Left::Held),
    row(Doing::Hold, After, Frame::CreatedEvent, Left::Held),
    row(Doing::Hold, Before, Frame::Answer, Left::Held),
    row(Doing::Hold, After, Frame::Answer, Left::Held),
    row(Doing::Allow, Before, Frame::RowRead, Left::Held),
    row(Doing::Allow, After, Frame::RowRead, Left::Held),
    row(Doing::Allow, Before, Frame::Decision, Left::Held),
    row(Doing::Allow, After, Frame::Decision, Left::HeldButDecided),
    row(Doing::Allow, Before, Frame::Marker, Left::HeldButDecided),
    row(Doing::Allow, After, Frame::Marker, Left::Over),
    row(Doing::Allow, Before, Frame::ResolvedEvent, Left::Over),
    row(Doing::Allow, After, Frame::ResolvedEvent, Left::Over),
    row(Doing::Allow, Before, Frame::MarkerDelete, Left::Over),
    row(Doing::Allow, After, Frame::MarkerDelete, Left::Over),
    row(Doing::Allow, Before, Frame::Answer, Left::Over),
    row(Doing::Allow, After, Frame::Answer, Left::Over),
    row(Doing::Deny, Before, Frame::Decision, Left::Held),
    row(Doing::Deny, After, Frame::Decision, Left::HeldButDecided),
    row(Doing::Deny, After, Frame::Marker, Left::Over),
    row(Doing::Deny, After, Frame::ResolvedEvent, Left::Over),
    row(Doing::TurnEnd, Before, Frame::RowRead, Left::Held),
    row(Doing::TurnEnd, After, Frame::RowRead, Left::Held),
    row(Doing::TurnEnd, Before, Frame::Marker, Left::Held),
    row(Doing::TurnEnd, After, Frame::Marker, Left::Over),
    row(Doing::TurnEnd, Before, Frame::ResolvedEvent, Left::Over),
    row(Doing::TurnEnd, After, Frame::ResolvedEvent, Left::Over),
    row(Doing::TurnEnd, Before, Frame::MarkerDelete, Left::Over),
];

/// How the story goes on after the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The step is delivered again where it was a hold; then a person decides.
    Decide,
    TurnEnds,
    SessionGoes,
}

const NEXT: [Next; 3] = [Next::Decide, Next::TurnEnds, Next::SessionGoes];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_point_leaves_a_state_that_is_right() {
    let lane = |doings: &'static [Doing]| async move {
        let mut world = World::start(json!({"rules": ["!approval::*"]})).await;
        let mut problems = Vec::new();
        let points = POINTS.iter().filter(|row| doings.contains(&row.doing));
        for (number, row) in points.enumerate() {
            for next in NEXT {
                let session = format!("s_{number}_{next:?}");
                let name = format!("{:?}: {:?} {:?}, then {next:?}", row.doing, row.when, row.frame);
                let found = play(&mut world, row, next, &session).await;
                problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
            }
        }
        problems
    };
    let (holds, resolves) =
        tokio::join!(lane(&[Doing::Hold]), lane(&[Doing::Allow, Doing::Deny, Doing::TurnEnd]));
    let problems = [holds, resolves].concat();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

async fn play(world: &mut World, row: &Row, next: Next, session: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if row.doing != Doing::Hold {
        let held = world.gate(session, "c").await;
        if held.as_deref() != Some("hold") {
            return vec![format!("the call was not held to begin with: {held:?}")];
        }
    }
    crash_at(world, row, session).await;

    let told = world.harness.told(session, "c").len();
    let expected_told =
        usize::from(matches!(row.left, Left::HeldButDecided | Left::Over) && row.doing != Doing::TurnEnd);
    if told != expected_told {
        problems.push(format!("the harness was told {told} times, expected {expected_told}"));
    }
    let held = usize::from(matches!(row.left, Left::Held | Left::HeldButDecided));
    if row.left == Left::Over {
        let gone = within(std::time::Duration::from_secs(3), || async {
            (world.row(session, "c").await.is_null() && resolved_events(world, session) == 1).then_some(())
        });
        if gone.await.is_none() {
            let row = world.row(session, "c").await;
            problems.push(format!("not over: row {row}, story {:?}", world.story(session)));
        }
    }
    let (rows, listed) = (world.rows(session).await.len(), world.listed(session).await);
    if (rows, listed) != (held, held) {
        problems.push(format!("{rows} rows and {listed} in the inbox, expected {held}"));
    }
    problems.extend(go_on(world, row, next, session).await);
    problems
}

/// Lets the worker do what the row says, stops the world at the point, and kills the worker there.
async fn crash_at(world: &mut World, row: &Row, session: &str) {
    let (frame, doing, of) = (row.frame, row.doing, session.to_owned());
    let reached = world.relay.stop_at(move |written| is(frame, doing, &of, written), row.when);
    let (console, peer) = (world.console.clone(), world.siblings.peer.clone());
    let of = session.to_owned();
    let under_way = tokio::spawn(async move {
        let decide = |word: &str| json!({"session_id": of, "function_call_id": "c", "decision": word});
        match doing {
            Doing::Hold => drop(ask_gate(&console, &of, "c").await),
            Doing::Allow => drop(console.call("approval::resolve", decide("allow")).await),
            Doing::Deny => drop(console.call("approval::resolve", decide("deny")).await),
            Doing::TurnEnd => {
                let ended = json!({"session_id": of, "turn_id": "t_1"});
                drop(peer.call("approval::on-turn-completed", ended).await);
            }
        }
    });
    let stopped = tokio::time::timeout(crate::support::wait::PATIENCE, reached.opened()).await;
    assert!(
        stopped.is_ok(),
        "{doing:?} never came to {:?} {:?}; the worker said:\n{}",
        row.when,
        row.frame,
        world.worker.log_text()
    );
    if row.when == After && matches!(row.frame, Frame::CreatedEvent | Frame::ResolvedEvent) {
        let listener = if row.frame == Frame::CreatedEvent { ON_CREATED } else { ON_RESOLVED };
        eventually("the event to reach its listener", || async {
            world.console.heard_by(listener).iter().any(|event| event["session_id"] == session).then_some(())
        })
        .await;
    }
    world.crash_worker().await;
    under_way.await.unwrap();
}

fn is(frame: Frame, doing: Doing, session: &str, written: &Value) -> bool {
    let call =
        |function_id: &str| written["type"] == "invokefunction" && written["function_id"] == function_id;
    let data = &written["data"];
    let row = |function_id: &str| {
        call(function_id) && data["scope"] == PENDING && data["key"] == format!("{session}/c")
    };
    match frame {
        Frame::SettingsRead => {
            call("state::get") && data["scope"] == "approval_settings" && data["key"] == session
        }
        Frame::RowRead => row("state::get"),
        Frame::SessionRead => call("session::get") && data["session_id"] == session,
        Frame::RecordWrite | Frame::Marker => row("state::set"),
        Frame::CreatedEvent => call(ON_CREATED) && data["session_id"] == session,
        Frame::Decision => call(RESOLVE) && data["session_id"] == session,
        Frame::ResolvedEvent => call(ON_RESOLVED) && data["session_id"] == session,
        Frame::MarkerDelete => row("state::delete"),
        Frame::Answer => {
            let function_id = match doing {
                Doing::Hold => "approval::gate",
                Doing::Allow | Doing::Deny => "approval::resolve",
                Doing::TurnEnd => "approval::on-turn-completed",
            };
            written["type"] == "invocationresult" && written["function_id"] == function_id
        }
    }
}

fn resolved_events(world: &World, session: &str) -> usize {
    world.story(session).iter().filter(|line| line.starts_with("resolved")).count()
}

/// Goes on in one of the three ways and sees that the hold ends exactly once, and that nothing is left.
async fn go_on(world: &World, row: &Row, next: Next, session: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut expect = |what: &str, is_so: bool, seen: String| {
        if !is_so {
            problems.push(format!("{what}, but {seen}"));
        }
    };
    let held_before = matches!(row.left, Left::Held | Left::HeldButDecided);
    let mut ends = match row.left {
        Left::Held | Left::HeldButDecided | Left::Over => 1,
        Left::Nothing => 0,
    };
    match next {
        Next::Decide if row.doing == Doing::Hold => {
            let again = world.gate(session, "c").await;
            expect(
                "the call is held when it is delivered again",
                again.as_deref() == Some("hold"),
                format!("{again:?}"),
            );
            let listed = world.listed(session).await;
            expect("it stands once in the inbox", listed == 1, format!("{listed} times"));
            let resolved = world.resolve(session, "c", "allow").await;
            expect("it can be decided", resolved == Some(true), format!("{resolved:?}"));
            ends = 1;
        }
        Next::Decide => {
            let decision = if row.doing == Doing::Allow { "allow" } else { "deny" };
            let resolved = world.resolve(session, "c", decision).await;
            let first = row.left == Left::Held;
            expect(
                "a second decision counts only if the first did not",
                resolved == Some(first),
                format!("{resolved:?}"),
            );
        }
        Next::TurnEnds => world.end_turn(session).await,
        Next::SessionGoes => world.delete_session(session).await,
    }
    let over = within(std::time::Duration::from_secs(3), || async {
        (world.row(session, "c").await.is_null() && resolved_events(world, session) >= ends).then_some(())
    })
    .await;
    let story = world.story(session);
    expect(
        "the row goes and the end is told",
        over.is_some(),
        format!("row {}, {story:?}", world.row(session, "c").await),
    );
    expect(
        "it ends exactly as often as it must",
        resolved_events(world, session) == ends,
        format!("{story:?}"),
    );
    let (rows, listed) = (world.rows(session).await.len(), world.listed(session).await);
    expect("nothing is left", (rows, listed) == (0, 0), format!("{rows} rows, {listed} in the inbox"));
    let first_resolved = story.iter().position(|line| line.starts_with("resolved"));
    let created = story.iter().rposition(|line| line == "created");
    let in_order = created.is_none_or(|created| first_resolved.is_none_or(|resolved| created < resolved));
    expect("it was created before it was resolved", in_order, format!("{story:?}"));
    let outcome_is_right = match (row.doing, row.left, next) {
        (Doing::Allow, Left::Over, _) => story.contains(&"resolved allow".to_owned()),
        (Doing::Deny, Left::Over, _) => story.contains(&"resolved deny".to_owned()),
        (_, Left::HeldButDecided, _)
        | (Doing::TurnEnd, Left::Over, _)
        | (_, Left::Held, Next::TurnEnds | Next::SessionGoes) => {
            story.contains(&"resolved aborted".to_owned())
        }
        _ => true,
    };
    expect("the outcome is right", outcome_is_right || !held_before && ends == 0, format!("{story:?}"));
    let effects = world.harness.told(session, "c");
    expect("the harness was never told two effective decisions", effects.len() <= 2, format!("{effects:?}"));
    problems
}
