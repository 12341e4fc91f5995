//! Who may ask, and how often?

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::http::{HeaderMap, header};

use super::Service;
use super::error::ApiError;
use crate::auth::KeyHash;

impl Service {
    /// Lets the admin pass.
    pub(super) fn admit_admin(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        match (&self.admin, key_in(headers)) {
            (None, _) => Ok(()),
            (Some(admin), Some(key)) if admin.matches(&key) => Ok(()),
            (_, key) => Err(refused(key.is_some(), "the admin key")),
        }
    }

    /// Lets clients of the app, and the admin, pass, as often as they may. Returns the app's d.
    pub(super) fn admit_client(&self, headers: &HeaderMap, app: &str) -> Result<usize, ApiError> {
        let directory = self.engine.directory();
        let listed = directory.app(app);
        if let Some(admin) = &self.admin {
            let key = key_in(headers);
            let known = key.is_some_and(|key| {
                admin.matches(&key) | listed.is_some_and(|listed| listed.knows(&key))
            });
            if !known {
                return Err(refused(key.is_some(), "a key of this app"));
            }
        }
        if !self.rates.admit(app, Instant::now()) {
            let sentence = "this app asks more often than rate_per_second allows; ask later";
            return Err(ApiError::later(429, "rate_limited", sentence, 1));
        }
        // Whether an app that is not listed was deleted or never was, the engine knows.
        Ok(listed.map_or(0, |listed| listed.dim))
    }
}

fn refused(has_key: bool, needed: &str) -> ApiError {
    match has_key {
        false => {
            let sentence = format!("send {needed} as `Authorization: Bearer KEY`");
            ApiError::new(401, "key_missing", sentence)
        }
        true => ApiError::new(403, "key_refused", format!("this is not {needed}")),
    }
}

fn key_in(headers: &HeaderMap) -> Option<KeyHash> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    Some(KeyHash::of(value.strip_prefix("Bearer ")?.trim()))
}

/// How often each app asks: a bucket that fills with `per_second` tokens a second, and holds as
/// many.
pub(super) struct Rates {
    per_second: f64,
    buckets: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Rates {
    pub(super) fn new(per_second: u64) -> Self {
        Self { per_second: per_second as f64, buckets: Mutex::default() }
    }

    fn admit(&self, app: &str, now: Instant) -> bool {
        if self.per_second == 0.0 {
            return true;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(app) {
            buckets.insert(app.to_owned(), (self.per_second, now));
        }
        let Some((tokens, filled_at)) = buckets.get_mut(app) else { return true };
        let since = now.saturating_duration_since(*filled_at).as_secs_f64();
        *tokens = (*tokens + since * self.per_second).min(self.per_second);
        *filled_at = now;
        let enough = *tokens >= 1.0;
        *tokens -= f64::from(enough);
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_passes_then_as_many_a_second_as_allowed() {
        let rates = Rates::new(10);
        let start = Instant::now();
        let passed =
            |from: Instant, asked: usize| (0..asked).filter(|_| rates.admit("shop", from)).count();
        assert_eq!(passed(start, 100), 10);
        assert_eq!(passed(start + Duration::from_millis(500), 100), 5);
        assert_eq!(passed(start + Duration::from_secs(60), 100), 10);
        assert!(rates.admit("another app", start));
    }
}
