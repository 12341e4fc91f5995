//! Writes RESULTS.md from the stored measurements.

mod held_to;
mod markdown;
mod others;
mod tables;

use std::fmt::Write;

use crate::sections::{clubs, components, growth, limit, peers, phases, policies, refits};
use crate::store::{Kept, Store};
use markdown::date;

/// All measurements, as far as there are any.
pub struct Everything {
    policies: Option<Kept<Vec<policies::Measured>>>,
    limit: Option<Kept<limit::Measured>>,
    peers: Option<Kept<peers::Measured>>,
    phases: Option<Kept<phases::Measured>>,
    clubs: Option<Kept<Vec<clubs::Measured>>>,
    refits: Option<Kept<refits::Measured>>,
    components: Option<Kept<Vec<components::Measured>>>,
    growth: Option<Kept<Vec<growth::Measured>>>,
}

/// The whole page.
pub fn markdown(store: &Store) -> anyhow::Result<String> {
    let all = Everything {
        policies: store.get(policies::NAME)?,
        limit: store.get(limit::NAME)?,
        peers: store.get(peers::NAME)?,
        phases: store.get(phases::NAME)?,
        clubs: store.get(clubs::NAME)?,
        refits: store.get(refits::NAME)?,
        components: store.get(components::NAME)?,
        growth: store.get(growth::NAME)?,
    };
    let mut page = String::from(
        "# Measured\n\n\
         Made by `bench/run`; do not edit. `bench/run SECTION` measures one section again and keeps the\n\
         others. A user-round is: for one user, score K arms, pick one, learn from its reward. What is\n\
         compared runs in turn in the same run, and the best of several counts.\n\n",
    );
    section(&mut page, "Held to", None::<&Kept<()>>, || Some(held_to::table(&all)));
    section(&mut page, "1. Every policy", all.policies.as_ref(), || {
        all.policies.as_ref().map(|kept| tables::policies(&kept.measured))
    });
    section(&mut page, "2. Against the limit of the machine", all.limit.as_ref(), || {
        all.limit.as_ref().map(|kept| tables::limit(&kept.measured))
    });
    section(&mut page, "3a. Against peers: LinUCB per user", all.peers.as_ref(), || {
        all.peers.as_ref().map(|kept| tables::peers(&kept.measured))
    });
    section(&mut page, "3b. Against peers: MAXIMAL-CLUSTER", all.components.as_ref(), || {
        all.components.as_ref().map(|kept| tables::components(&kept.measured))
    });
    section(&mut page, "4. Growth", all.growth.as_ref(), || {
        all.growth.as_ref().map(|kept| tables::growth(&kept.measured))
    });
    section(&mut page, "5. The phases of cmlb", all.phases.as_ref(), || {
        all.phases.as_ref().map(|kept| tables::phases(&kept.measured))
    });
    section(&mut page, "6. club and sclub", all.clubs.as_ref(), || {
        all.clubs.as_ref().map(|kept| tables::clubs(&kept.measured))
    });
    section(&mut page, "7. Learning the population", all.refits.as_ref(), || {
        all.refits.as_ref().map(|kept| tables::refits(&kept.measured))
    });
    page.push_str(&others::sections(store)?);
    Ok(page.trim_end().to_owned() + "\n")
}

/// A heading, the machine and date of the measurement, and its text.
fn section<T>(
    page: &mut String,
    title: &str,
    kept: Option<&Kept<T>>,
    text: impl FnOnce() -> Option<String>,
) {
    let _ = write!(page, "## {title}\n\n");
    if let Some(kept) = kept {
        let machine = &kept.machine;
        let _ = writeln!(
            page,
            "{}: {}, {} threads, {:.0} GiB, {}.{}\n",
            date(kept.unix_s),
            machine.processor,
            machine.threads,
            machine.memory_gib,
            machine.rustc.split(" (").next().unwrap_or_default(),
            if kept.quick { " **Quick run: smaller sizes, not to be quoted.**" } else { "" }
        );
    }
    page.push_str(&text().unwrap_or_else(|| "Not measured yet.\n".into()));
    page.push('\n');
}
