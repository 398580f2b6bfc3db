//! The registry manifest that `--manifest` prints (contract §9).
//!
//! Name, version and description come from the package, so that they cannot drift from what was built.

use serde_json::{Value, json};

use crate::policy::Policy;

/// The platforms that releases are built for.
const SUPPORTED_TARGETS: [&str; 9] = [
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-gnu",
    "armv7-unknown-linux-gnueabihf",
    "x86_64-pc-windows-msvc",
    "i686-pc-windows-msvc",
    "aarch64-pc-windows-msvc",
];

/// The manifest: `{name, version, description, default_config, supported_targets}`. `default_config` is the
/// configuration value that a fresh deployment gets.
pub fn manifest() -> Value {
    json!({
        "name": crate::boot::WORKER_NAME,
        "version": env!("CARGO_PKG_VERSION"),
        "description": env!("CARGO_PKG_DESCRIPTION"),
        "default_config": Policy::shipped_value(),
        "supported_targets": SUPPORTED_TARGETS,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_registry_finds_all_that_it_asks_for() {
        let manifest = manifest();

        assert_eq!(manifest["name"], "approval-gate");
        assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
        assert!(!manifest["description"].as_str().unwrap().is_empty());
        assert_eq!(
            manifest["default_config"],
            json!({"default_mode": "manual", "rules": ["!approval::*"], "grant_reask_limit": 3})
        );
    }

    #[test]
    fn every_target_is_listed_once() {
        let targets = manifest()["supported_targets"].as_array().unwrap().clone();
        assert_eq!(targets.len(), 9);
        assert_eq!(targets.iter().map(Value::to_string).collect::<HashSet<_>>().len(), 9);
    }

    #[test]
    fn the_package_file_for_the_registry_agrees_with_the_manifest() {
        let package = include_str!("../../iii.worker.yaml");
        let package: Value = serde_saphyr::from_str(package).unwrap();
        let manifest = manifest();

        assert_eq!(package["name"], manifest["name"]);
        assert_eq!(package["description"], manifest["description"]);
    }
}
