//! Who is next? Every app has a queue of its own, and they take turns by the work that they bring:
//! however much one app asks for, another waits for little more than what is being done.
//!
//! Turns are by deficit (deficit round robin): an app whose turn it is may bring as much work as it
//! has credit; one whose next request is larger gets credit and waits for its next turn. An app that
//! has nothing waiting has no credit either. What a request costs is estimated before it is done; where it took
//! much longer its app owes the rest, and pays before its next request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Message;

/// The credit of a turn, in the units of [`super::super::Request::work`].
const TURN: u64 = 1 << 20;
/// However large a request is, it waits for no more turns than this.
const MOST_TURNS: u64 = 64;
/// Memory that waiting requests may take together.
const MOST_BYTES: usize = 256 << 20;

/// What it costs to do a message, and to keep it waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub work: u64,
    pub bytes: usize,
}

/// Messages that wait.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    most: usize,
}

#[derive(Default)]
struct Waiting {
    queues: HashMap<String, AppQueue>,
    /// Apps that have something waiting, the next one first.
    turns: VecDeque<String>,
    /// Work that was done for apps and was not in the price.
    debts: HashMap<String, u64>,
    count: usize,
    bytes: usize,
    /// No more will come.
    stops: bool,
    /// Nobody takes them any more.
    is_gone: bool,
    /// Whether somebody waits for them.
    sleeps: bool,
}

#[derive(Default)]
struct AppQueue {
    messages: VecDeque<(Cost, Message)>,
    credit: u64,
}

/// Why a message was not taken.
#[derive(Debug, PartialEq)]
pub(super) enum NotTaken {
    Full,
    Gone,
}

/// What there is to do.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and a box would cost every request an allocation"
)]
pub(super) enum Next {
    Do(Message, Cost),
    /// Nothing came in time.
    Nothing,
    /// All is done, and no more will come.
    Stop,
}

impl Queue {
    /// For so many messages.
    pub fn new(most: usize) -> Self {
        Self { waiting: Mutex::default(), filled: Condvar::new(), most: most.max(1) }
    }

    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message of an app, unless too many wait: in all, or of this app, which leaves a quarter
    /// to others.
    pub fn push(&self, app: &str, cost: Cost, message: Message) -> Result<(), NotTaken> {
        let waiting = self.locked();
        let theirs = waiting.queues.get(app).map_or(0, |app_queue| app_queue.messages.len());
        let is_full = waiting.count >= self.most
            || theirs >= self.most.div_ceil(4) * 3
            || (waiting.bytes + cost.bytes > MOST_BYTES && waiting.count > 0);
        match is_full && !waiting.is_gone && !waiting.stops {
            true => Err(NotTaken::Full),
            false => self.add(waiting, app, cost, message),
        }
    }

    /// Takes a message of the service itself, always.
    pub fn push_own(&self, app: &str, message: Message) -> Result<(), NotTaken> {
        self.push_always(app, Cost::default(), message)
    }

    /// Takes a message that ends what was begun, however many wait.
    pub fn push_always(&self, app: &str, cost: Cost, message: Message) -> Result<(), NotTaken> {
        self.add(self.locked(), app, cost, message)
    }

    fn add(
        &self,
        mut waiting: MutexGuard<Waiting>,
        app: &str,
        cost: Cost,
        message: Message,
    ) -> Result<(), NotTaken> {
        if waiting.is_gone || waiting.stops {
            return Err(NotTaken::Gone);
        }
        waiting.add(app, cost, message);
        if waiting.sleeps {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Takes back a message for which something must be done first: it is the next of its app again, and was paid for.
    pub fn put_back(&self, cost: Cost, message: Message) {
        let mut waiting = self.locked();
        if waiting.is_gone {
            return;
        }
        let app = match &message {
            Message::Ask(request, _) | Message::Tell(request) => request.app().unwrap_or_default(),
        };
        let (app, cost) = (app.to_owned(), Cost { work: 0, ..cost });
        waiting.put_back(app, cost, message);
    }

    /// The next message, waiting for one for at most so long.
    pub fn next(&self, patience: Duration) -> Next {
        let mut waiting = self.locked();
        if let Some((cost, message)) = waiting.take() {
            return Next::Do(message, cost);
        }
        if !waiting.stops && !patience.is_zero() {
            waiting.sleeps = true;
            let empty = |waiting: &mut Waiting| waiting.count == 0 && !waiting.stops;
            let woken = self.filled.wait_timeout_while(waiting, patience, empty);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
            waiting.sleeps = false;
        }
        match waiting.take() {
            Some((cost, message)) => Next::Do(message, cost),
            None if waiting.stops => Next::Stop,
            None => Next::Nothing,
        }
    }

    /// More was done for an app than was expected.
    pub fn charge(&self, app: String, work: u64) {
        let mut waiting = self.locked();
        let debt = waiting.debts.entry(app).or_default();
        *debt = debt.saturating_add(work).min(TURN * MOST_TURNS);
    }

    /// No more is taken; what waits is still done.
    pub fn stop(&self) {
        self.locked().stops = true;
        self.filled.notify_one();
    }

    /// Nobody does anything any more: who waits is told so.
    pub fn abandon(&self) {
        let mut waiting = self.locked();
        waiting.is_gone = true;
        (waiting.count, waiting.bytes) = (0, 0);
        waiting.turns.clear();
        let queues = std::mem::take(&mut waiting.queues);
        drop(waiting);
        drop(queues);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.locked().count
    }
}

impl Waiting {
    fn add(&mut self, app: &str, cost: Cost, message: Message) {
        self.count += 1;
        self.bytes += cost.bytes;
        if let Some(app_queue) = self.queues.get_mut(app) {
            app_queue.messages.push_back((cost, message));
            return;
        }
        self.turns.push_back(app.to_owned());
        let app_queue = AppQueue { messages: VecDeque::from([(cost, message)]), credit: TURN };
        self.queues.insert(app.to_owned(), app_queue);
    }

    fn put_back(&mut self, app: String, cost: Cost, message: Message) {
        self.count += 1;
        self.bytes += cost.bytes;
        if let Some(app_queue) = self.queues.get_mut(&app) {
            app_queue.messages.push_front((cost, message));
            return;
        }
        self.turns.push_back(app.clone());
        let app_queue = AppQueue { messages: VecDeque::from([(cost, message)]), credit: 0 };
        self.queues.insert(app, app_queue);
    }

    fn take(&mut self) -> Option<(Cost, Message)> {
        loop {
            let app = self.turns.front()?;
            let app_queue = self.queues.get_mut(app)?;
            let (cost, _) = app_queue.messages.front()?;
            let debt = self.debts.get(app).copied().unwrap_or(0);
            let price = cost.work.min(TURN * MOST_TURNS) + debt;
            // Whoever is alone need not wait for its turn, and owes nobody anything.
            if self.turns.len() == 1 {
                self.debts.clear();
            } else if app_queue.credit < price {
                app_queue.credit += TURN;
                self.turns.rotate_left(1);
                continue;
            }
            app_queue.credit = app_queue.credit.saturating_sub(price);
            if debt > 0 {
                self.debts.remove(app);
            }
            let taken = app_queue.messages.pop_front();
            if app_queue.messages.is_empty() {
                let app = self.turns.pop_front()?;
                self.queues.remove(&app);
            }
            self.count -= 1;
            self.bytes -= taken.as_ref().map_or(0, |(cost, _)| cost.bytes);
            return taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Request;
    use proptest::prelude::*;

    fn message(app: &str) -> Message {
        Message::Tell(Request::ShowApp { app: app.to_owned() })
    }

    fn app_of(next: Next) -> Option<(String, u64)> {
        match next {
            Next::Do(Message::Tell(Request::ShowApp { app }), cost) => Some((app, cost.work)),
            _ => None,
        }
    }

    fn with(work: u64) -> Cost {
        Cost { work, bytes: 10 }
    }

    #[test]
    fn small_requests_pass_a_crowd_of_large_ones() {
        let queue = Queue::new(1000);
        for _ in 0..100 {
            queue.push("large", with(50 * TURN), message("large")).unwrap();
        }
        for _ in 0..100 {
            queue.push("small", with(100), message("small")).unwrap();
        }
        let order: Vec<_> =
            std::iter::from_fn(|| app_of(queue.next(Duration::ZERO))).map(|(app, _)| app).collect();
        let last_small = order.iter().rposition(|app| app == "small").unwrap();
        let large_before = order[..last_small].iter().filter(|app| *app == "large").count();
        assert!(large_before <= 1, "{large_before} large ones were done before all small ones");
        assert_eq!(order.len(), 200);
    }

    #[test]
    fn work_that_was_not_expected_is_paid_before_more_is_done() {
        let queue = Queue::new(1000);
        let push = |app: &str, count: usize| {
            (0..count).for_each(|_| queue.push(app, with(1000), message(app)).unwrap());
        };
        push("large", 10);
        assert_eq!(app_of(queue.next(Duration::ZERO)).unwrap().0, "large");
        queue.charge("large".to_owned(), 40 * TURN);
        push("small", 200);
        let next = || app_of(queue.next(Duration::ZERO)).map(|(app, _)| app);
        let first: Vec<_> = (0..200).filter_map(|_| next()).collect();
        assert!(first.iter().all(|app| app == "small"), "{first:?}");
        // Whoever is alone is served, and owes nothing any more.
        assert_eq!(std::iter::from_fn(next).count(), 9);
        push("large", 1);
        push("small", 1);
        assert_eq!(next().as_deref(), Some("large"));
    }

    #[test]
    fn one_app_does_not_take_all_places_and_memory_is_counted() {
        let queue = Queue::new(8);
        let taken = |app: &str, cost| queue.push(app, cost, message(app)).is_ok();
        assert_eq!((0..10).filter(|_| taken("shop", with(1))).count(), 6);
        assert!(taken("blog", with(1)) && taken("blog", with(1)) && !taken("blog", with(1)));
        assert_eq!(queue.len(), 8);
        while app_of(queue.next(Duration::ZERO)).is_some() {}
        let large = Cost { work: 1, bytes: MOST_BYTES };
        assert!(taken("shop", large), "what fits nowhere else is done alone");
        assert!(!taken("blog", with(1)));
        queue.push_own("blog", message("blog")).unwrap();
        queue.stop();
        assert!(matches!(queue.push("blog", with(1), message("blog")), Err(NotTaken::Gone)));
        assert!(app_of(queue.next(Duration::ZERO)).is_some(), "what waits is still done");
        assert!(app_of(queue.next(Duration::ZERO)).is_some());
        assert!(matches!(queue.next(Duration::from_secs(1)), Next::Stop));
        queue.abandon();
        assert!(matches!(queue.push_own("blog", message("blog")), Err(NotTaken::Gone)));
    }

    proptest! {
        /// Whatever comes: all of it is done, each app's in its order, and while several apps have
        /// something waiting none gets more than a turn and a request ahead of another.
        #[test]
        fn turns_are_fair(asked in prop::collection::vec((0..3usize, 0..5 * TURN), 1..120)) {
            let queue = Queue::new(1000);
            let mut left = [0u64; 3];
            for (app, work) in &asked {
                queue.push(&app.to_string(), with(*work), message(&app.to_string())).unwrap();
                left[*app] += 1;
            }
            let mut order = [const { Vec::new() }; 3];
            let mut done = [0u64; 3];
            while let Some((app, work)) = app_of(queue.next(Duration::ZERO)) {
                let app: usize = app.parse().unwrap();
                order[app].push(work);
                left[app] -= 1;
                done[app] += work;
                if left.iter().all(|left| *left > 0) {
                    let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
                    prop_assert!(most - least <= 8 * TURN, "{done:?}");
                }
            }
            for app in 0..3 {
                let sent: Vec<u64> =
                    asked.iter().filter(|(of, _)| *of == app).map(|(_, work)| *work).collect();
                prop_assert_eq!(&sent, &order[app]);
            }
        }
    }
}
