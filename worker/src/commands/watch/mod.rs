//! `approval-gate watch`: the inbox as it changes, and decisions by single keys.
//!
//! `follow` keeps up with the worker, `holds` knows what changed, `screen` what a key does, `view` how it looks. These
//! four need no terminal. `keys` and `terminal` do; `lines` is for when there is none.

mod follow;
mod holds;
mod keys;
mod lines;
#[cfg(test)]
mod samples;
mod screen;
mod terminal;
mod view;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::follow::{Link, News, Questions};
use self::holds::{HoldId, Holds};
use self::keys::Key;
use self::screen::{Dialog, Effect, Event, Screen};
use self::terminal::Terminal;
use super::decide;
use super::peer::{self, Failure, Filter, Gate};
use super::worker::stop_requested;
use crate::clock::now_ms;
use crate::iii::{self, Session, Status};

/// News and keys that may wait for the screen.
const WAITING: usize = 256;
/// Between two looks at the clock.
const TICK: Duration = Duration::from_secs(1);

/// Watches until told to stop. Exit status 2 if there is no engine at the start; later it is waited for.
pub async fn run(url: &str, filter: Filter) -> Result<ExitCode, Failure> {
    iii::check_address(url).map_err(|error| peer::no_engine(&error))?;
    let questions = Arc::new(Questions::default());
    let registry = follow::registry(&filter, &questions);
    let prepare: iii::Prepare = Arc::new(|_, _| Box::pin(std::future::ready(Ok(()))));
    let (client, session) = iii::start(peer::options(url), |_| registry, prepare);
    if let Some(why) = not_there(&session).await {
        return Err(peer::no_engine(&why));
    }
    let gate = Gate::new(client);
    let (tell, news) = mpsc::channel(WAITING);
    let mut tasks = JoinSet::new();
    tasks.spawn(follow::follow(gate.clone(), filter, session.status(), Arc::clone(&questions), tell));
    let outcome =
        if has_screen() { on_screen(url, &gate, &questions, news).await } else { as_lines(news).await };
    session.shutdown(Duration::ZERO).await;
    if let Err(error) = outcome {
        eprintln!("approval-gate: {error}");
        return Ok(ExitCode::from(super::person::NOT_DONE));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether there is a terminal that can be painted on and typed at.
fn has_screen() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !dumb
}

/// Why the first connection came to nothing, if it did.
async fn not_there(session: &Session) -> Option<String> {
    let mut status = session.status();
    let known = |status: &Status| {
        matches!(
            status,
            Status::Ready { .. } | Status::Connecting { last_error: Some(_), .. } | Status::Stopped
        )
    };
    let status = status.wait_for(known).await;
    match status.as_deref() {
        Ok(Status::Connecting { last_error: Some(why), .. }) => Some(why.clone()),
        _ => None,
    }
}

/// One line per event, until stopped or until nobody reads them.
async fn as_lines(mut news: mpsc::Receiver<News>) -> io::Result<()> {
    let (mut holds, mut link) = (Holds::default(), Link::Asking);
    let stop = stop_requested();
    tokio::pin!(stop);
    loop {
        let news = tokio::select! {
            () = &mut stop => return Ok(()),
            news = news.recv() => match news {
                Some(news) => news,
                None => return Ok(()),
            },
        };
        let changes = match news {
            News::Link(now) => {
                if now != link && (link != Link::Asking || now != Link::Live) {
                    eprintln!("approval-gate: {}", link_line(&now));
                }
                link = now;
                continue;
            }
            News::Listed(records, _) => holds.listed(records),
            News::Looked { session, call, now, ended } => holds.looked(&session, &call, now, ended.as_ref()),
        };
        for change in changes {
            use io::Write as _;
            writeln!(io::stdout(), "{}", lines::line(&change, now_ms()))?;
        }
    }
}

fn link_line(link: &Link) -> String {
    match link {
        Link::Asking | Link::Live => "connected, up to date".to_owned(),
        Link::NoEngine(why) | Link::NoWorker(why) => format!("{}; trying again", super::text::safe(why)),
    }
}

/// The screen, until it is left.
async fn on_screen(
    url: &str,
    gate: &Gate,
    questions: &Arc<Questions>,
    mut news: mpsc::Receiver<News>,
) -> io::Result<()> {
    let (width, height) = Terminal::size();
    let mut screen = Screen::new(url, width, height, now_ms());
    let mut terminal = Terminal::open()?;
    let (frame, (typed, mut input)) = (Arc::new(AtomicU64::new(0)), mpsc::channel(WAITING));
    read_input(Arc::clone(&frame), typed);
    let mut decisions: JoinSet<(HoldId, String)> = JoinSet::new();
    let mut tick = tokio::time::interval(TICK);
    let stop = stop_requested();
    tokio::pin!(stop);
    loop {
        terminal.paint(view::render(&screen))?;
        frame.store(screen.painted(), Ordering::Release);
        let event = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            typed = input.recv() => match typed {
                Some(typed) => match event_of(typed, &screen, &mut terminal) {
                    Some(event) => event,
                    None => continue,
                },
                None => return Ok(()),
            },
            Some(done) = decisions.join_next() => match done {
                Ok((id, words)) => {
                    questions.about(&id.session, &id.call, None);
                    Event::Decided(id, words)
                }
                Err(_) => continue,
            },
            told = news.recv() => match told {
                Some(told) => Event::News(told),
                None => return Ok(()),
            },
            _ = tick.tick() => Event::Time(now_ms()),
        };
        match screen.update(event) {
            None => {}
            Some(Effect::Quit) => return Ok(()),
            Some(Effect::Decide(record, order)) => {
                let gate = gate.clone();
                decisions.spawn(async move {
                    let done = decide::carry_out(&gate, &record, &order).await;
                    (HoldId::of(&record), done.sentence(&order))
                });
            }
        }
    }
}

/// What the terminal sent, as an event of the screen.
fn event_of(
    (event, frame): (crossterm::event::Event, u64),
    screen: &Screen,
    terminal: &mut Terminal,
) -> Option<Event> {
    use crossterm::event::Event as Sent;
    match event {
        Sent::Key(key) => {
            let in_text = matches!(screen.dialog, Some(Dialog::Reason { .. }));
            Key::of(key, in_text).map(|key| Event::Key(key, frame))
        }
        Sent::Paste(text) => Some(Event::Pasted(text)),
        Sent::Resize(width, height) => {
            terminal.forget();
            Some(Event::Resized(usize::from(width), usize::from(height)))
        }
        _ => None,
    }
}

/// Reads the terminal in a thread of its own, which ends with the process or when nobody listens. Each event carries the
/// number of the frame that was on the screen when it was typed: what arrives together was typed before the first of it
/// had an effect.
fn read_input(frame: Arc<AtomicU64>, typed: mpsc::Sender<(crossterm::event::Event, u64)>) {
    std::thread::spawn(move || {
        while let Ok(first) = crossterm::event::read() {
            let seen = frame.load(Ordering::Acquire);
            let mut together = vec![first];
            while together.len() < WAITING && crossterm::event::poll(Duration::ZERO).unwrap_or(false) {
                let Ok(next) = crossterm::event::read() else { return };
                together.push(next);
            }
            for event in together {
                if typed.blocking_send((event, seen)).is_err() {
                    return;
                }
            }
        }
    });
}
