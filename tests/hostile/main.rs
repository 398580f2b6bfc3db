//! Hostile input, without a fuzzer: the functions of the fuzz targets over their seeds, over seeds that were damaged, and
//! over what the fuzzers found.
//!
//! Each run takes other damage. A failure prints the damaged input, which then belongs into a test of its own.

#![allow(clippy::unwrap_used)]

mod found;
mod targets;

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// How many damaged inputs each target is given.
const DAMAGED: u32 = 150;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Small harm done to a seed, at places that scale with it.
#[derive(Debug, Clone)]
enum Damage {
    Put(Index, u8),
    Insert(Index, &'static [u8]),
    Remove(Index, Index),
    Repeat(Index, Index, usize),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let awkward: Vec<&'static [u8]> = vec![
        b"\"",
        b"\\",
        b"{",
        b"]",
        b"\n",
        b"\0",
        b"\xff",
        b"null",
        b"-1",
        b"1e999",
        b"\\u0000",
        b"/../",
        b"token=",
        b"\xe2\x80\xae",
        b"*",
        b"!",
        b"${A:",
        b"grant_hint=",
        b", expected ",
        b" at line ",
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Put(at, byte)),
        (any::<Index>(), prop::sample::select(awkward)).prop_map(|(at, what)| Damage::Insert(at, what)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Remove(from, to)),
        (any::<Index>(), any::<Index>(), 2_usize..40)
            .prop_map(|(from, to, times)| Damage::Repeat(from, to, times)),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

fn damaged(mut bytes: Vec<u8>, harm: &[Damage]) -> Vec<u8> {
    for damage in harm {
        let range = |from: &Index, to: &Index| {
            let (from, to) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
            from.min(to)..from.max(to)
        };
        match damage {
            Damage::Put(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Damage::Put(..) => {}
            Damage::Insert(at, what) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, what.iter().copied());
            }
            Damage::Remove(from, to) => drop(bytes.drain(range(from, to))),
            Damage::Repeat(from, to, times) => {
                let range = range(from, to);
                let piece = bytes[range.start..range.end.min(range.start + 200)].repeat(*times);
                bytes.splice(range.start..range.start, piece);
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
        }
    }
    bytes
}

#[test]
fn every_seed_is_survived_by_every_target() {
    for (target, _) in targets::ALL {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{target} has no seeds");
        for seed in &seeds {
            targets::run(target, seed);
        }
    }
}

#[test]
fn damaged_seeds_are_survived() {
    for (target, check) in targets::ALL {
        let seed = prop::sample::select(seeds(target));
        let input =
            (seed, prop::collection::vec(damage(), 1..5)).prop_map(|(seed, harm)| damaged(seed, &harm));
        let config = Config { cases: DAMAGED, failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&input, |bytes| {
            check(&bytes);
            Ok(())
        });
        if let Err(failure) = outcome {
            panic!("{target}: {failure}");
        }
    }
}
