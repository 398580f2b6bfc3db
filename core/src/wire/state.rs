//! What the `state` worker answers (contract §2), as far as it is read.

use serde::Deserialize;
use serde_json::Value;

/// The answer to a write. The new value, which it repeats, is not read.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Written {
    /// What was replaced; `null` if there was nothing.
    #[serde(default)]
    pub old_value: Value,
}
