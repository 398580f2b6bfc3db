//! "Did you mean": the known word closest to a mistyped one.
//!
//! Pure and bounded; it only ever shapes the text of a refusal, never what is accepted.

/// The known word that `typed` was most likely meant to be, if one is close enough to be worth naming.
///
/// Case is ignored. Close enough means at most one edit for every three characters, and at least one.
pub fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let typed = typed.trim().to_lowercase();
    // Nothing that long is a typing mistake, and the distance below is quadratic.
    if typed.chars().count() > 64 {
        return None;
    }
    known
        .iter()
        .map(|word| (distance(&typed, &word.to_lowercase()), *word))
        .filter(|(edits, word)| *edits <= (word.chars().count() / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `left` into `right`.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let replace = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_word_that_was_meant() {
        assert_eq!(nearest("atuo", &["manual", "auto", "full"]), Some("auto"));
        assert_eq!(nearest("Full", &["manual", "auto", "full"]), Some("full"));
        assert_eq!(nearest("arg", &["rule_id", "function", "action", "modes", "args"]), Some("args"));
        assert_eq!(nearest("match", &["equals", "matches"]), Some("matches"));
        assert_eq!(nearest("default-mode", &["default_mode", "rules"]), Some("default_mode"));
    }

    #[test]
    fn stays_silent_when_nothing_is_close() {
        assert_eq!(nearest("block", &["allow", "deny"]), None);
        assert_eq!(nearest("", &["auto"]), None);
        assert_eq!(nearest(&"auto".repeat(100_000), &["auto"]), None);
    }
}
