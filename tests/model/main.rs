//! The worker's core against a simulated engine: random scripts of calls, decisions, endings, changes, faults, lost
//! connections and crashes, in virtual time, and what must hold after each.
//!
//! Not `proptest-state-machine`: its steps are applied one after the other, and here they must overlap. A script is
//! a plain value that proptest makes; `run` plays it and lets everything settle before it judges. A failing one is
//! made smaller by leaving steps out, which is all the shrinking that helps.
//!
//! `MODEL_RUNS` sets how many scripts are played (default 2,000), `MODEL_FIRST` moves where their seeds start,
//! `MODEL_SEED` plays one script again, `MODEL_TRACE=1` tells what happened in it, `MODEL_KIND` says which of several
//! violations to make smaller, `MODEL_SHRINK=0` that none is to be; `MODEL_SURVEY` plays so many and counts. Everything random comes from the seed, except
//! ids, which nothing is ordered by, and the time of the worker is virtual too: a seed plays the same run again.

#![allow(clippy::unwrap_used)]

mod asking;
mod engine;
mod faults;
mod harness;
mod history;
mod invariants;
mod link;
mod run;
mod script;
mod store;
mod worker;
mod world;

use std::time::Instant;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use script::Script;

const STEPS: usize = 60;
/// Where the seeds start, so that two soaks do not play the same scripts.
const FIRST_SEED: u64 = 0x0a99_0000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn script(seed: u64) -> Script {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    script::scripts(STEPS).new_tree(&mut runner).unwrap().current()
}

/// Plays one seed's script; a failing one is made as small as it gets.
fn play(seed: u64) -> Result<run::Tally, String> {
    let script = script(seed);
    let first = run::play(&script, false);
    let Err(failure) = first else { return first };
    let (failure, smallest) =
        if number("MODEL_SHRINK") == Some(0) { (failure, script) } else { shrink(script, failure) };
    if std::env::var_os("MODEL_TRACE").is_some() {
        let _ = run::play(&smallest, true);
    }
    let steps: Vec<_> = smallest.steps.iter().map(|step| format!("  {step:?}")).collect();
    Err(format!(
        "{failure}\nsmallest script, dice {}:\n{}\nplay it again: MODEL_SEED={seed} MODEL_TRACE=1 cargo test --test model -- --nocapture",
        smallest.dice,
        steps.join("\n"),
    ))
}

/// What was violated, in one word each.
fn kinds(failure: &str) -> impl Iterator<Item = &str> {
    failure.lines().filter_map(|line| line.split(':').next())
}

/// Leaves out steps, in ever smaller runs, for as long as the same thing is violated. Dice stay as they are: what
/// befalls a request depends on what is asked and how often, so most of a script does not change with its neighbours.
fn shrink(mut script: Script, mut failure: String) -> (String, Script) {
    let kind =
        std::env::var("MODEL_KIND").unwrap_or_else(|_| kinds(&failure).next().unwrap_or_default().to_owned());
    let mut length = script.steps.len();
    while length > 0 {
        let mut at = 0;
        while at < script.steps.len() {
            let mut shorter = script.clone();
            shorter.steps.drain(at..(at + length).min(script.steps.len()));
            match run::play(&shorter, false) {
                Err(said) if kinds(&said).any(|one| one == kind) => (script, failure) = (shorter, said),
                _ => at += length,
            }
        }
        length /= 2;
    }
    (failure, script)
}

/// For work on the worker: plays on after failures and counts them by kind, each with its first run.
fn survey(runs: u64) {
    let mut counts = std::collections::BTreeMap::<String, (u64, u64)>::new();
    let first = number("MODEL_FIRST").unwrap_or(FIRST_SEED);
    for seed in first..first + runs {
        let Err(said) = run::play(&script(seed), false) else { continue };
        let of_run: std::collections::BTreeSet<_> = kinds(&said).map(str::to_owned).collect();
        for kind in of_run {
            counts.entry(kind).or_insert((0, seed)).0 += 1;
        }
    }
    for (kind, (count, seed)) in counts {
        println!("{kind}: {count} of {runs}, first in run {} (MODEL_SEED={seed})", seed - first + 1);
    }
}

#[test]
fn a_seed_plays_the_same_run_again() {
    for seed in FIRST_SEED..FIRST_SEED + 50 {
        let course = || play(seed).unwrap_or_else(|failure| panic!("{failure}")).course;
        assert_eq!(course(), course(), "seed {seed}");
    }
}

#[test]
fn the_promises_hold_under_every_script() {
    if let Some(seed) = number("MODEL_SEED") {
        play(seed).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    if let Some(runs) = number("MODEL_SURVEY") {
        survey(runs);
        return;
    }
    let runs = number("MODEL_RUNS").unwrap_or(2_000);
    let first = number("MODEL_FIRST").unwrap_or(FIRST_SEED);
    let (started, mut tally) = (Instant::now(), run::Tally::default());
    for seed in first..first + runs {
        match play(seed) {
            Ok(one) => tally.add(&one),
            Err(failure) => panic!("run {} of {runs}: {failure}", seed - first + 1),
        }
    }
    println!("{runs} runs in {:.1?}: {tally:?}", started.elapsed());
    assert!(
        runs < 1_000 || tally.is_worth_something(),
        "the scripts do not reach what they should: {tally:?}"
    );
}
