//! Absolute paths compared as written, component by component.
//!
//! Purely lexical: it never asks a file system, so a link inside a folder still counts as inside. `.`, `..`, doubled
//! and trailing slashes are resolved first, else `/srv/ws/../secrets` would read as a folder of `/srv/ws`.

/// The path with `.`, `..`, doubled and trailing slashes resolved, `..` above `/` staying at `/`. `None` if it is not
/// absolute; a drive letter makes no path absolute here.
pub fn normalise(path: &str) -> Option<String> {
    let relative = path.strip_prefix('/')?;
    let mut kept: Vec<&str> = Vec::new();
    for component in relative.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            component => kept.push(component),
        }
    }
    Some(format!("/{}", kept.join("/")))
}

/// Whether `path` is `root` or under it, both normalised first: `/a/b` holds `/a/b/c`, not `/a/bc` (contract §4). A
/// path that is not absolute holds nothing and is held by nothing.
pub fn contains(root: &str, path: &str) -> bool {
    let (Some(root), Some(path)) = (normalise(root), normalise(path)) else {
        return false;
    };
    match path.strip_prefix(root.trim_end_matches('/')) {
        Some(below) => below.is_empty() || below.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_one_path_become_the_same() {
        let rows = [
            ("/", Some("/")),
            ("//", Some("/")),
            ("/..", Some("/")),
            ("/a/../..", Some("/")),
            ("/srv/ws/", Some("/srv/ws")),
            ("/srv//ws", Some("/srv/ws")),
            ("/srv/ws/./sub//", Some("/srv/ws/sub")),
            ("/srv/ws/../secrets", Some("/srv/secrets")),
            ("/srv/ws/...", Some("/srv/ws/...")),
            ("/é/漢", Some("/é/漢")),
            ("", None),
            ("srv", None),
            ("./srv", None),
            ("~/srv", None),
            ("C:\\srv", None),
            ("\\\\host\\share", None),
            (" /srv", None),
        ];
        for (given, expected) in rows {
            assert_eq!(normalise(given).as_deref(), expected, "{given:?}");
        }
    }

    #[test]
    fn a_folder_holds_itself_and_what_is_below_but_no_neighbour() {
        for (root, path, held) in [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/b/c", true),
            ("/a/b/", "/a/b/c", true),
            ("/a/b", "/a/bc", false),
            ("/a/b", "/a/b-sibling", false),
            ("/a/b", "/a", false),
            ("/a/b", "/a/b/../c", false),
            ("/", "/a", true),
            ("/", "/", true),
            ("", "/a", false),
            ("a", "/a", false),
            ("/a", "a", false),
        ] {
            assert_eq!(contains(root, path), held, "{root:?} {path:?}");
        }
    }

    proptest! {
        #[test]
        fn containment_is_that_of_the_components(
            root in prop::collection::vec("a|b|ab|\\.|\\.\\.|", 0..5), path in prop::collection::vec("a|b|ab|\\.|\\.\\.|", 0..7),
        ) {
            let resolve = |components: &[String]| {
                components.iter().fold(Vec::new(), |mut kept, component| {
                    match component.as_str() {
                        "" | "." => {}
                        ".." => { kept.pop(); }
                        _ => kept.push(component.clone()),
                    }
                    kept
                })
            };
            let held = resolve(&path).starts_with(&resolve(&root));
            let joined = |components: &[String]| format!("/{}", components.join("/"));
            prop_assert_eq!(contains(&joined(&root), &joined(&path)), held);
            let normal = normalise(&joined(&path)).unwrap();
            prop_assert_eq!(normalise(&normal).unwrap(), normal);
        }
    }
}
