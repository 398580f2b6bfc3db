//! Requests for filesystem access, and the paths in them.

use approval_gate::fsaccess::{self, AccessRequest, covered_by, path as paths, stands_down};
use serde_json::{Value, json};

use super::{assert_plain, text};

const CODES: [&str; 4] = ["S215", "S220", "C215", "C218"];
const MARKERS: [&str; 2] = ["filesystem_access_request=", "grant_hint="];

/// A failed result, as JSON; what is no JSON is the message of one, under each code and in each place.
pub fn access_request(bytes: &[u8]) {
    if let Ok(result) = serde_json::from_slice::<Value>(bytes) {
        if let Ok(request) = fsaccess::asked(&result) {
            asks_rightly(&result, &request);
        }
        return;
    }
    let text = text(bytes);
    for code in [json!("S215"), json!("C218"), json!("E1"), Value::Null] {
        for (message, content) in [(&*text, ""), ("the path is outside the jail", &*text)] {
            let result = json!({
                "is_error": true,
                "details": {"error": {"code": code, "message": message}},
                "content": [{"type": "image", "data": ""}, {"type": "text", "text": content}],
            });
            if let Ok(request) = fsaccess::asked(&result) {
                asks_rightly(&result, &request);
                assert!(code != "E1" && (message == &*text || code != Value::Null));
            }
        }
    }
}

fn asks_rightly(result: &Value, request: &AccessRequest) {
    let error = &result["details"]["error"];
    assert!(result["is_error"] == true && error.is_object());
    assert!(CODES.contains(&&*request.error_code));
    assert!(error["code"].is_null() || error["code"] == request.error_code);
    assert_plain(&request.requested_root);
    assert_plain(&request.attempted_path);
    assert_eq!(paths::normalise(&request.requested_root).as_ref(), Some(&request.requested_root));
    // The request is the JSON behind the last marker, which runs to the end.
    let in_content =
        result["content"].as_array().into_iter().flatten().find_map(|block| block["text"].as_str());
    let places = [error["message"].as_str(), in_content.filter(|_| !error["code"].is_null())];
    let place = places.into_iter().flatten().find(|text| MARKERS.iter().any(|marker| text.contains(marker)));
    let place = place.expect("a request without a marker");
    // Each vocabulary has its own word for the root, and the other's counts for nothing.
    let tails = MARKERS.iter().zip(["requested_root", "dir"]);
    let behind = tails.filter_map(|(marker, root)| place.rsplit_once(marker).map(|(_, tail)| (tail, root)));
    let (tail, root) = behind.min_by_key(|(tail, _)| tail.len()).unwrap();
    let tail: Value = serde_json::from_str(tail).unwrap();
    let root = tail[root].as_str();
    assert_eq!(
        (&tail["v"], root.and_then(paths::normalise)),
        (&json!(1), Some(request.requested_root.clone()))
    );
    assert!(fsaccess::carries_request(&json!({"a": [place]})));
    assert!(stands_down(request, Some(&request.requested_root)).is_some());
    assert!(covered_by(&request.requested_root, [&*request.requested_root]));
}

/// Up to three paths, one a line.
pub fn path(bytes: &[u8]) {
    let text = text(bytes);
    let paths: Vec<&str> = text.split('\n').take(3).collect();
    for path in &paths {
        let normal = paths::normalise(path);
        assert_eq!(normal.as_deref().map(components), components_of(path));
        if let Some(normal) = normal {
            assert_eq!(paths::normalise(&normal).as_ref(), Some(&normal));
            assert!(paths::contains(path, &normal) && paths::contains("/", path));
        }
        for root in &paths {
            let held = match (components_of(root), components_of(path)) {
                (Some(root), Some(path)) => path.starts_with(&root),
                _ => false,
            };
            assert_eq!(paths::contains(root, path), held, "{root:?} {path:?}");
        }
    }
}

fn components(normal: &str) -> Vec<&str> {
    normal.split('/').filter(|component| !component.is_empty()).collect()
}

/// The folders that lead to an absolute path.
fn components_of(path: &str) -> Option<Vec<&str>> {
    path.starts_with('/').then(|| {
        let mut kept = Vec::new();
        for component in components(path) {
            match component {
                "." => {}
                ".." => drop(kept.pop()),
                name => kept.push(name),
            }
        }
        kept
    })
}
