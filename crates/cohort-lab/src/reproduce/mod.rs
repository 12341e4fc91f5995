//! `cohort reproduce`: the paper's evaluation with every figure, its data, and a verdict on every
//! claim.
//!
//! ```text
//! study files → settings → tuning → jobs → journal → evidence → claims, figures, tables → page
//! ```
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`study`] | what is run? (the files in `experiments/`) |
//! | [`job`] | what determines a result, and what is kept of it? |
//! | [`journal`] | what is already there? |
//! | [`probes`] | what is inside the algorithms and their proofs? |
//! | [`tuning`] | which parameters does a policy play with? |
//! | [`workers`] | how is all of it run, with the time left, and stopped? |
//! | [`gather`] | how do studies become evidence? |
//! | [`so_far`] | what can be shown before all of it is run? |
//! | [`evidence`] | what was measured, and how does it compare? |
//! | [`claims`] | what does the paper say, and did it hold? |
//! | [`fit`] | which exponent? |
//! | [`charts`], [`tables`], [`page`] | how is it shown? |
//! | [`docs`] | what do readers of the repository see? |

pub mod charts;
pub mod claims;
pub mod docs;
pub mod evidence;
pub mod fit;
pub mod gather;
pub mod job;
pub mod journal;
pub mod page;
pub mod probes;
pub mod so_far;
pub mod study;
pub mod tables;
pub mod tuning;
pub mod workers;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cohort::nearest;

use crate::Error;
use crate::figures::{png, svg};
use crate::results::columns::{write_csv, write_parquet};
use crate::results::write_whole;
use claims::ClaimResult;
use evidence::{Evidence, Measured};
use study::{FILES, Study};
use workers::WorkerContext;
pub use workers::{Halt, Watcher};

/// What to reproduce, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// Fewer repetitions and a smaller grid.
    pub quick: bool,
    /// Studies whose name begins so have fewer repetitions and a smaller grid although the others
    /// do not.
    pub quick_for: Vec<String>,
    /// Nothing is run: the report is of the repetitions that are already there.
    pub so_far: bool,
    /// Only studies whose name begins so (`fig2`, `scaling`); all if empty.
    pub only: Vec<String>,
    /// Policies that are left out, by name: those that take too long, or are being changed.
    pub without: Vec<String>,
    /// Where the report goes.
    pub out: PathBuf,
    /// The folder of data sets.
    pub data: PathBuf,
    /// Another seed than the files'.
    pub seed: Option<u64>,
    /// Another number of repetitions than the files'.
    pub reps: Option<usize>,
    /// How many threads to use.
    pub threads: usize,
    /// Where a page for readers of the repository goes, if one is wanted: Markdown, figures and small
    /// tables.
    pub docs: Option<PathBuf>,
}

/// The result.
pub struct Report {
    /// Every claim and its verdict.
    pub claims: Vec<ClaimResult>,
    /// The page.
    pub page: PathBuf,
    /// Studies that were left out: name, title, why.
    pub left_out: Vec<(String, String, String)>,
}

/// Runs what is asked for, or goes on with it, and writes the report.
pub fn reproduce(
    request: &Request,
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<Report, Halt> {
    reproduce_studies(request, request.studies()?, watcher, stop)
}

/// The same for given studies.
pub fn reproduce_studies(
    request: &Request,
    studies: Vec<Study>,
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<Report, Halt> {
    let journal = journal::Journal::open(&request.out.join("journal.jsonl"))?;
    let Request { threads, so_far, .. } = *request;
    let workshop = WorkerContext { journal: &journal, threads, so_far, watcher, stop };
    let evidence = gather::gather(studies, &workshop, &request.data, request.seed)?;
    let claims = claims::judge(&evidence);
    write(request, &evidence, &claims)?;
    let page = request.out.join("index.html");
    Ok(Report { claims, page, left_out: evidence.left_out })
}

impl Request {
    /// The studies asked for.
    fn studies(&self) -> Result<Vec<Study>, Error> {
        for wanted in self.only.iter().chain(&self.quick_for) {
            if !FILES.iter().any(|(name, _)| name.starts_with(wanted.as_str())) {
                let names = || FILES.iter().map(|(name, _)| *name);
                let hint = nearest(wanted, names())
                    .map_or(String::new(), |name| format!(" (did you mean `{name}`?)"));
                let expected = format!("one of {}{hint}", names().collect::<Vec<_>>().join(", "));
                return Err(Error::unexpected("study", format!("`{wanted}`"), expected));
            }
        }
        let mut studies: Vec<Study> = (FILES.iter())
            .filter(|(name, _)| self.asks_for(name))
            .map(|(name, text)| Study::parse(name, text, self.is_quick(name)))
            .collect::<Result<_, Error>>()?;
        for name in &self.without {
            cohort::registry::info(name)?;
        }
        for study in &mut studies {
            study.draft.policies.retain(|policy| !self.without.contains(&policy.name));
        }
        if let Some(reps) = self.reps {
            for study in &mut studies {
                study.draft.run.insert("reps".into(), cohort::params::Value::Real(reps as f64));
            }
        }
        Ok(studies)
    }

    /// Whether a study is among those asked for.
    pub fn asks_for(&self, study: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| study.starts_with(wanted.as_str()))
    }

    /// Whether a study is made smaller.
    pub fn is_quick(&self, study: &str) -> bool {
        self.quick || self.quick_for.iter().any(|wanted| study.starts_with(wanted.as_str()))
    }

    /// Full, quick, or both.
    pub fn mode(&self) -> &'static str {
        match (self.quick, self.quick_for.is_empty()) {
            (true, _) => "quick",
            (false, true) => "full",
            (false, false) => "mixed",
        }
    }

    /// The command that makes all of it.
    pub fn whole_command(&self) -> String {
        let mut command =
            format!("cohort reproduce{}", if self.quick { " --quick" } else { " --full" });
        for (option, names) in
            [("quick-for", &self.quick_for), ("only", &self.only), ("without", &self.without)]
        {
            if !names.is_empty() {
                command.push_str(&format!(" --{option} {}", names.join(",")));
            }
        }
        if let Some(seed) = self.seed {
            command.push_str(&format!(" --seed {seed}"));
        }
        if let Some(reps) = self.reps {
            command.push_str(&format!(" --reps {reps}"));
        }
        if self.so_far {
            command.push_str(" --so-far");
        }
        command
    }

    /// The command that makes a study's figures again.
    /// Several studies have commas between them.
    pub fn command(&self, study: &str) -> String {
        let mut command = format!("cohort reproduce --only {study}");
        command.push_str(if self.is_quick(study) { " --quick" } else { " --full" });
        if let Some(seed) = self.seed {
            command.push_str(&format!(" --seed {seed}"));
        }
        if let Some(reps) = self.reps {
            command.push_str(&format!(" --reps {reps}"));
        }
        if !self.without.is_empty() {
            command.push_str(&format!(" --without {}", self.without.join(",")));
        }
        if study.split(',').any(study::reads_data) {
            command.push_str(&format!(" --data {}", self.data.display()));
        }
        command
    }
}

/// Figures, tables and the page.
fn write(request: &Request, evidence: &Evidence, claims: &[ClaimResult]) -> Result<(), Error> {
    let (figures, data) = (request.out.join("figures"), request.out.join("data"));
    for folder in [&figures, &data] {
        std::fs::create_dir_all(folder)
            .map_err(|source| Error::Write { path: folder.clone(), source })?;
    }
    let mut sections = Vec::new();
    for measured in &evidence.studies {
        let mut drawn = Vec::new();
        for figure in charts::figures(measured) {
            let (picture, readings) = figure.draw();
            let text = svg::write(&picture);
            put(&figures, &format!("{}.svg", figure.name), text.as_bytes())?;
            put(&figures, &format!("{}.png", figure.name), &png::write(&picture))?;
            drawn.push(page::DrawnFigure { name: figure.name, svg: text, readings });
        }
        write_tables(&data, &request.out, measured)?;
        sections.push(page::Section { measured, drawn });
    }
    let claims_json = page::claims_json(request, evidence, claims);
    put(&request.out, "claims.json", claims_json.as_bytes())?;
    if let Some(docs) = &request.docs {
        docs::write(docs, request, &sections, evidence, claims)?;
    }
    let html = page::write(request, &sections, claims, &evidence.left_out);
    put(&request.out, "index.html", html.as_bytes())
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    write_whole(&folder.join(name), |file| file.write_all(bytes))
}

fn write_tables(data: &Path, out: &Path, measured: &Measured) -> Result<(), Error> {
    let name = &measured.study.name;
    if measured.study.probe.is_some() {
        let answers = tables::answers(measured);
        let path = data.join(format!("{name}-repetitions.csv"));
        return write_whole(&path, |file| write_csv(file, &answers));
    }
    let curves = tables::curves(measured);
    write_whole(&data.join(format!("{name}-curves.csv")), |file| write_csv(file, &curves))?;
    write_whole(&data.join(format!("{name}-curves.parquet")), |file| write_parquet(file, &curves))?;
    let reps = tables::repetitions(measured);
    write_whole(&data.join(format!("{name}-repetitions.csv")), |file| write_csv(file, &reps))?;
    write_whole(&data.join(format!("{name}-repetitions.parquet")), |file| {
        write_parquet(file, &reps)
    })?;
    let folder = out.join("times");
    std::fs::create_dir_all(&folder)
        .map_err(|source| Error::Write { path: folder.clone(), source })?;
    let times = tables::times(measured);
    write_whole(&folder.join(format!("{name}.csv")), |file| write_csv(file, &times))
}
