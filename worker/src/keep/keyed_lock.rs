//! A lock per key, which costs nothing for keys that nobody holds.
//!
//! Order among waiters is that of arrival. A waiter that gives up leaves nothing behind.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Table = Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// The locks.
#[derive(Clone, Default)]
pub struct KeyedLock {
    table: Table,
}

/// The key is ours until this is dropped. Fields are dropped in order: first the lock, then the place in the table.
pub struct KeyGuard {
    _guard: OwnedMutexGuard<()>,
    _place: Place,
}

/// Somebody holds or waits for the key; the last one to leave removes it from the table.
struct Place {
    table: Table,
    key: String,
    lock: Option<Arc<tokio::sync::Mutex<()>>>,
}

impl KeyedLock {
    /// Waits for the key. Bound it with a deadline where a caller is waiting.
    pub async fn lock(&self, key: &str) -> KeyGuard {
        let lock = {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(table.entry(key.to_owned()).or_default())
        };
        let place =
            Place { table: Arc::clone(&self.table), key: key.to_owned(), lock: Some(Arc::clone(&lock)) };
        let guard = lock.lock_owned().await;
        KeyGuard { _guard: guard, _place: place }
    }

    /// How many keys are held or waited for.
    pub fn len(&self) -> usize {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nobody holds or waits for any key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock = None;
        // New references are made under the table's lock only, so a count of one is nobody but the table.
        if table.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            table.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_key_has_one_owner_and_other_keys_do_not_wait() {
        let locks = KeyedLock::default();
        let first = locks.lock("a").await;
        let _other = locks.lock("b").await;
        assert!(tokio::time::timeout(Duration::from_secs(1), locks.lock("a")).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(Duration::from_secs(1), locks.lock("a")).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_of_owners_and_of_waiters_that_gave_up() {
        let locks = KeyedLock::default();
        let first = locks.lock("a").await;
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { tokio::time::timeout(Duration::from_secs(5), locks.lock("a")).await.is_err() }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(first);
        assert!(!waiting.await.unwrap_or(true), "the waiter gets the key");
        assert!(locks.is_empty());

        let holder = locks.lock("a").await;
        assert!(tokio::time::timeout(Duration::from_secs(1), locks.lock("a")).await.is_err());
        drop(holder);
        assert!(locks.is_empty());
    }
}
