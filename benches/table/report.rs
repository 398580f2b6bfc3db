//! Figures and the table they end in.

use std::time::Duration;

/// Whether a short run is wanted.
pub fn is_short() -> bool {
    std::env::var_os("BENCH_SHORT").is_some_and(|value| value != "0")
}

/// Whether this section is to be measured: the words that people add to the command choose some, none means all.
pub fn is_chosen(section: &str) -> bool {
    // `--bench` comes from cargo.
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--")).peekable();
    words.peek().is_none() || words.any(|word| word == section)
}

/// `long` times, or a tenth of that in a short run.
pub fn times(long: usize) -> usize {
    if is_short() { (long / 10).max(2) } else { long }
}

/// The rows so far.
pub struct Table(Vec<[String; 4]>);

impl Table {
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// A figure that should be at most, or at least, another.
    pub fn row(&mut self, what: &str, target: &str, measured: impl Into<String>, met: Option<bool>) {
        let verdict = met.map_or("", |met| if met { "met" } else { "missed" });
        let row = [what.to_owned(), target.to_owned(), measured.into(), verdict.to_owned()];
        eprintln!("{}", row.join(" | "));
        self.0.push(row);
    }

    pub fn print(&self) {
        println!("\n| what | target | measured | |\n|--|--|--|--|");
        for row in &self.0 {
            println!("| {} |", row.join(" | "));
        }
    }
}

/// Durations of the same thing.
#[derive(Default, Clone)]
pub struct Samples(Vec<Duration>);

impl Samples {
    pub fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value below which `share` of 1 lie, in microseconds.
    pub fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a position in the list
        let position = ((sorted.len() - 1) as f64 * share).round() as usize;
        sorted[position].as_secs_f64() * 1e6
    }
}

/// The typical time of one `run`, microseconds: the median of batches, so that being set aside does not count.
pub fn typical(batches: usize, batch: u32, mut run: impl FnMut()) -> f64 {
    let mut samples = Samples::default();
    for _ in 0..batches {
        let started = std::time::Instant::now();
        for _ in 0..batch {
            run();
        }
        samples.push(started.elapsed() / batch);
    }
    samples.at(0.5)
}
