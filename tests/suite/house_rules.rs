//! Tidiness as a test: each rule lists all its violations at once.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file without its test module.
const LONGEST: usize = 450;

/// The sources of the crates: the binary, the worker, its pure core, the engine client.
const PLACES: [&str; 4] = ["src", WORKER, CORE, CLIENT];
const WORKER: &str = "worker/src";
const CORE: &str = "core/src";
const CLIENT: &str = "client/src";

/// What the pure core may be built from: nothing that knows a socket, a peer, a clock or a runtime.
const IN_PURE: [&str; 10] = [
    "base64",
    "regex",
    "regex-syntax",
    "schemars",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "thiserror",
    "uuid",
];

/// Who may know the local engine.
const KNOW_LOCAL: [&str; 4] = ["local", "cli", "commands", "main"];

/// Where a serde derive is a promise to somebody, and the reader of the seed file, which is nobody's wire.
const DERIVE_SERDE: [&str; 4] = ["wire", "iii", "local", "seed"];

/// The clock of the crate, and that of the local engine, which must not know the crate.
const CLOCKS: [&str; 2] = ["clock.rs", "local/clock.rs"];

struct Source {
    /// One of [`PLACES`].
    place: &'static str,
    /// Relative to that, with forward slashes.
    name: String,
    text: String,
}

impl Source {
    /// The folder, or the file's stem at the top; the client as a whole is what the worker calls `iii`.
    fn module(&self) -> &str {
        if self.place == CLIENT {
            return "iii";
        }
        let first = self.name.split('/').next().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    fn is_test(&self) -> bool {
        self.name.ends_with("tests.rs") || self.name.split('/').any(|part| part == "tests")
    }

    /// Without its test module and without comments, line by line.
    fn code(&self) -> Vec<&str> {
        let body = self.text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        body.lines().map(|line| line.split("//").next().unwrap()).collect()
    }

    /// The modules of this crate that the code names, with the line.
    fn imports(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let code = self.code();
        for (index, line) in code.iter().enumerate() {
            for (at, _) in line.match_indices("crate::") {
                let rest = format!("{}{}", &line[at + "crate::".len()..], code[index + 1..].join(" "));
                found.extend(named_first(&rest).into_iter().map(|name| (index + 1, name)));
            }
        }
        found
    }
}

/// The first names of a path or of a braced list of paths.
fn named_first(rest: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(list) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let (mut depth, mut names, mut start) = (1, Vec::new(), true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => start = true,
            c if depth == 1 && start && !c.is_whitespace() => {
                names.push(word(&list[at..]));
                start = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for place in PLACES {
        let (root, before) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(place), found.len());
        collect(&root, &mut |path| {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            found.push(Source { place, name, text: fs::read_to_string(path).unwrap() });
        });
        let least = if place == "src" { 1 } else { 5 };
        assert!(found.len() >= before + least, "the sources of {place} were not found");
    }
    found
}

fn collect(folder: &Path, take: &mut impl FnMut(&Path)) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, take);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            take(&path);
        }
    }
}

fn none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n{}", violations.join("\n"));
}

/// Violations of a rule about single lines of code.
fn lines(allowed: impl Fn(&Source) -> bool, breaks: impl Fn(&str) -> bool) -> Vec<String> {
    let mut violations = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test() && !allowed(source)) {
        for (index, line) in source.code().iter().enumerate().filter(|(_, line)| breaks(line)) {
            violations.push(format!("{}/{}:{}: {}", source.place, source.name, index + 1, line.trim()));
        }
    }
    violations
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = sources().into_iter().filter(|source| !source.text.starts_with("//!") && !source.is_test());
    let silent: Vec<String> = silent.map(|source| format!("{}/{}", source.place, source.name)).collect();
    none("a source file starts with a `//!` header", &silent);
}

#[test]
fn files_are_short() {
    let long = sources().into_iter().filter(|source| !source.is_test() && source.code().len() > LONGEST);
    let long: Vec<String> = long
        .map(|source| format!("{}/{}: {} lines", source.place, source.name, source.code().len()))
        .collect();
    none("a source file holds one idea", &long);
}

#[test]
fn the_pure_core_knows_no_edges() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("core/Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
    let dependencies = dependencies.lines().take_while(|line| !line.starts_with('['));
    let names: Vec<&str> = dependencies
        .filter_map(|line| line.split([' ', '.']).next().filter(|name| !name.is_empty()))
        .collect();
    assert!(names.contains(&"regex"), "the dependencies were not found");
    let strange: Vec<String> = names
        .iter()
        .filter(|name| !IN_PURE.contains(name))
        .map(|name| format!("core/Cargo.toml: {name}"))
        .collect();
    none("the core is values in, values out, and so is what it is built from", &strange);
    // What the standard library would give.
    let edges = [
        "async fn",
        "std::net",
        "std::fs",
        "SystemTime",
        "Instant",
        "std::thread",
        "std::process",
        "std::env",
    ];
    let violations =
        lines(|source| source.place != CORE, |line| edges.iter().any(|edge| line.contains(edge)));
    none("the core is values in, values out", &violations);
}

#[test]
fn only_the_command_line_knows_the_local_engine() {
    let mut violations = Vec::new();
    for source in sources() {
        for (line, name) in source.imports() {
            let stranger = name == "local" && !KNOW_LOCAL.contains(&source.module());
            let curious = source.module() == "local" && name != "local";
            if stranger || curious {
                violations.push(format!("{}/{}:{line}: crate::{name}", source.place, source.name));
            }
        }
    }
    none("nothing but the command line knows `local`, and `local` knows nothing", &violations);
}

#[test]
fn only_the_wire_derives_serde() {
    let derives =
        |line: &str| line.contains("derive(") && (line.contains("Serialize") || line.contains("Deserialize"));
    let violations = lines(|source| DERIVE_SERDE.contains(&source.module()), derives);
    none("serde derives live in wire, iii and local", &violations);
}

#[test]
fn only_the_clock_reads_wall_time() {
    let violations = lines(
        |source| CLOCKS.contains(&source.name.as_str()),
        |line| line.contains("SystemTime::now") || line.contains("UNIX_EPOCH") || line.contains("Utc::now"),
    );
    none("wall time is read in `clock.rs`", &violations);
}

#[test]
fn nothing_outside_tests_unwraps_or_is_left_undone() {
    let violations = lines(
        |_| false,
        |line| [".unwrap()", "todo!(", "unimplemented!(", "dbg!("].iter().any(|word| line.contains(word)),
    );
    none("no unwrap outside tests, nothing left undone", &violations);
}

#[test]
fn file_names_are_nouns_of_the_domain() {
    let vague = ["manager", "helper", "util", "common", "misc"];
    // The session manager is a worker of that name.
    let named = sources().into_iter().map(|source| source.name.replace("session_manager", "sessions"));
    let named: Vec<String> = named.filter(|name| vague.iter().any(|word| name.contains(word))).collect();
    none("a file name says which idea it holds", &named);
}

#[test]
fn no_place_of_one_machine_is_named() {
    // Put together here, so that this file does not name them either.
    let places = [
        ["/ho", "me/"],
        ["/ro", "ot/"],
        ["/work/", "shared"],
        ["/tmp/", "h/"],
        ["/tmp/", "iii"],
        ["cargo/", "registry"],
    ];
    let mut violations = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["src", WORKER, CORE, CLIENT, "tests", "benches"]
        .map(|folder| root.join(folder))
        .iter()
        .filter(|folder| folder.is_dir())
    {
        collect(folder, &mut |path| {
            for (index, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
                if places.iter().any(|place| line.contains(&place.concat())) {
                    violations.push(format!(
                        "{}:{}: {}",
                        path.strip_prefix(root).unwrap().display(),
                        index + 1,
                        line.trim()
                    ));
                }
            }
        });
    }
    none("no machine's paths in the code", &violations);
}

#[test]
fn braced_imports_are_seen() {
    let text = "use crate::{iii::{Client, Call}, clock::Deadline};\nfn f() { crate::keep::inbox() }\n// crate::local\n";
    let source = Source { place: CORE, name: "policy/x.rs".to_owned(), text: text.to_owned() };
    let names: Vec<String> = source.imports().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["iii", "clock", "keep"]);
}
