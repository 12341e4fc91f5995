//! What does a download take in memory, where many decisions wait with the features of all their candidates?
#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use cohort_server::event::{Decided, Event, Ranking, What};
use cohort_server::export::rows::App;
use cohort_server::export::{Format, Scratch, export};
use cohort_server::journal::{EventReader, JournalError, Visit};
use cohort_server::learning::Learning;
use cohort_server::settings::AppSettings;
use cohort_server::trial::TrialDecision;

const CANDIDATES: usize = 100;
const DIM: usize = 64;

/// Counts what is held, and the most that was.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A journal of decisions all of which wait to the end but for every tenth, which is rewarded when all were made. It is made
/// as it is read.
struct Open(usize);

impl EventReader for Open {
    fn read(&self, visit: &mut Visit) -> Result<u64, JournalError> {
        let mut bytes = Vec::new();
        let mut tell = |number: u64, what: What| {
            bytes.clear();
            Event { app: "shop".to_owned(), at_ms: number, what }.encode(&mut bytes);
            visit(number, &bytes)
        };
        let items: Vec<String> = (0..CANDIDATES).map(|item| format!("item-{item:06}")).collect();
        for at in 0..self.0 {
            let made = Decided {
                id: format!("{at:032}"),
                user: format!("user-{at:08}"),
                ranking: Ranking::new(items.iter().map(String::as_str)),
                context: vec![at as f64; DIM].into(),
                probability: 0.5,
                shown: true,
            };
            let candidates = vec![at as f64; CANDIDATES * DIM].into();
            let decision = TrialDecision { made, control: false, candidates };
            tell(at as u64 + 1, What::DecidedInTrial(decision))?;
        }
        for (number, at) in (self.0 + 1..).zip((0..self.0).step_by(10)) {
            let what = What::Rewarded { decision: format!("{at:032}"), reward: 1.0 };
            tell(number as u64, what)?;
        }
        Ok(0)
    }
}

/// Counts bytes, and looks for the rows of a few decisions.
struct Counted {
    bytes: usize,
    rows: usize,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        self.rows += bytes.iter().filter(|byte| **byte == b'\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `COHORT_OPEN_DECISIONS` sets how many wait: 100,000 of them have 5 GB of features.
#[test]
fn decisions_that_wait_are_not_in_memory_with_all_their_features() {
    let asked = std::env::var("COHORT_OPEN_DECISIONS").ok();
    let decisions: usize = asked.map_or(4000, |decisions| decisions.parse().unwrap());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let app = App {
        name: "shop".to_owned(),
        settings: AppSettings { window_ms: u64::MAX, ..AppSettings::new(DIM) },
        learning: Learning::default(),
        scratch: Scratch { folder: folder.path().to_owned(), reserve: 0 },
    };
    for format in [Format::Csv, Format::Parquet] {
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let (mut to, began) = (Counted { bytes: 0, rows: 0 }, std::time::Instant::now());
        export(&[&Open(decisions)], &app, format, &mut to, &|| true).unwrap();
        let most = MOST.load(Ordering::Relaxed) - before;
        let features = decisions * CANDIDATES * DIM * 8;
        println!(
            "{format:?}: {decisions} decisions with {features} bytes of features: {most} bytes in memory, {} written, {:?}",
            to.bytes,
            began.elapsed()
        );
        assert!(most < (100 << 20) + decisions * 500, "{format:?}: {most} bytes");
        if format == Format::Csv {
            assert_eq!(to.rows, decisions + 1);
        }
    }
}
