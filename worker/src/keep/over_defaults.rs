//! A session whose record says nothing of the published settings: its additions over the deployment's defaults.
//!
//! The gate needs one set of settings for every call, and putting it together copies lists. It is made once for each
//! configuration and kept.

use std::sync::{Arc, Mutex, PoisonError};

use crate::policy::settings::{Additions, Settings};

/// Additions waiting for the defaults of the moment.
#[derive(Debug)]
pub struct OverDefaults {
    additions: Additions,
    /// The last defaults that were asked for, and what was made of them.
    made: Mutex<Option<(Arc<Settings>, Arc<Settings>)>>,
}

impl OverDefaults {
    /// These additions.
    pub fn new(additions: Additions) -> Self {
        Self { additions, made: Mutex::default() }
    }

    /// What is in force with these defaults. Two are the same here only if they are one and the same value.
    pub fn over(&self, defaults: &Arc<Settings>) -> Arc<Settings> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, settings)) = &*made
            && Arc::ptr_eq(of, defaults)
        {
            return Arc::clone(settings);
        }
        let settings = Arc::new(Settings { additions: self.additions.clone(), ..Settings::clone(defaults) });
        *made = Some((Arc::clone(defaults), Arc::clone(&settings)));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PromptPolicy;
    use crate::policy::settings::Mode;

    #[test]
    fn additions_follow_the_defaults_and_are_put_together_once_for_each() {
        let over = OverDefaults::new(Additions::NONE.with_prompts(Some(PromptPolicy::Never)));
        let (manual, auto) = (Settings::fail_closed(), Settings::fail_closed().with_mode(Mode::Auto, 0));
        let (manual, auto) = (Arc::new(manual), Arc::new(auto));
        let made = over.over(&manual);
        assert_eq!((made.mode, made.additions.prompts), (Mode::Manual, Some(PromptPolicy::Never)));
        assert!(Arc::ptr_eq(&made, &over.over(&manual)));
        assert_eq!(over.over(&auto).mode, Mode::Auto);
        assert_eq!(over.over(&manual).mode, Mode::Manual);
    }
}
