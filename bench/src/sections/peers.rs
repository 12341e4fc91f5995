//! LinUCB per user against other libraries: crates in this process, Python packages in processes of
//! their own, all in turn.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::Effort;
use super::limit::{USERS, linucb_ind};
use crate::race::race;

/// The name of the section in the store.
pub const NAME: &str = "peers";

/// The Python packages, and NumPy by hand.
pub const PYTHON: [&str; 5] = ["mabwiser", "contextualbandits", "vowpalwabbit", "river", BY_HAND];

/// Not a bandit library: a page of NumPy.
pub const BY_HAND: &str = "numpy";

/// Ours and theirs.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// User-rounds per second of `linucb-ind`, one thread, N = [`USERS`].
    pub ours: f64,
    /// The peers.
    pub peers: Vec<Peer>,
}

/// One library.
#[derive(Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// "Rust" or "Python".
    pub language: String,
    /// Its version, where it is known.
    pub version: String,
    /// How it was used, or why it could not be.
    pub how: String,
    /// User-rounds per second, if it ran.
    pub per_second: Option<f64>,
}

/// Measures all in turn; the best of each counts.
pub fn measure(effort: &Effort) -> Measured {
    let mut ours = [linucb_ind(USERS, 1)];
    let mut rust = rust::contestants();
    let mut python: Vec<Peer> = Vec::new();
    for turn in 0..effort.or(1, 3) {
        race(&mut ours, effort.or(2, 10), 5);
        race(&mut rust, effort.or(1, 5), 1);
        for name in PYTHON {
            eprintln!("{name}, turn {turn}");
            let measured = python_peer(name, effort);
            match python.iter_mut().find(|peer| peer.name == name) {
                Some(peer) if measured.per_second > peer.per_second => *peer = measured,
                Some(_) => {}
                None => python.push(measured),
            }
        }
        race(&mut ours, effort.or(2, 10), 5);
    }
    let mut peers = rust::peers(&rust);
    peers.extend(python);
    Measured { ours: ours[0].rate(), peers }
}

fn python_peer(name: &str, effort: &Effort) -> Peer {
    let (language, mut version) = ("Python".to_owned(), String::new());
    let (how, per_second) = match run_python(name, effort) {
        Ok(said) => {
            version = said.version;
            (said.how, Some(said.user_rounds_per_second))
        }
        Err(why) => (format!("not measured: {why}"), None),
    };
    Peer { name: name.to_owned(), language, version, how, per_second }
}

/// The output of `linucb.py`.
#[derive(Deserialize)]
struct PeerOutput {
    user_rounds_per_second: f64,
    how: String,
    version: String,
}

fn run_python(name: &str, effort: &Effort) -> anyhow::Result<PeerOutput> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/linucb.py");
    let output = Command::new(&effort.python)
        .arg(script)
        .args([name, "--seconds", effort.or("1", "4")])
        .output()
        .with_context(|| format!("starting {}", effort.python.display()))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{}", complaint.lines().last().unwrap_or("it failed without a word"));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(said.lines().last().unwrap_or_default()).context("reading its answer")
}

#[cfg(feature = "peers")]
mod rust {
    use super::Peer;
    use crate::forms::DIM;
    use crate::race::{Contestant, seconds};
    use crate::rust_peers;
    use crate::world::World;

    /// Fewer than ours, which is in their favour: their models of 4,096 users take gigabytes.
    const USERS: usize = 512;

    pub fn contestants() -> Vec<Contestant<'static>> {
        (rust_peers::all(USERS).into_iter())
            .map(|mut peer| {
                let mut world = World::new(USERS, DIM, 10, 1);
                Contestant::new(peer.name, USERS as f64, move || {
                    let (contexts, rewards) = (world.contexts(), world.any_rewards());
                    seconds(|| (peer.round)(&contexts, &rewards))
                })
            })
            .collect()
    }

    pub fn peers(contestants: &[Contestant]) -> Vec<Peer> {
        (rust_peers::all(1).iter().zip(contestants))
            .map(|(peer, contestant)| Peer {
                name: peer.name.to_owned(),
                language: "Rust".to_owned(),
                version: peer.version.to_owned(),
                how: peer.how.to_owned(),
                per_second: Some(contestant.rate()),
            })
            .collect()
    }
}

#[cfg(not(feature = "peers"))]
mod rust {
    use super::Peer;
    use crate::race::Contestant;

    pub fn contestants() -> Vec<Contestant<'static>> {
        Vec::new()
    }

    pub fn peers(_contestants: &[Contestant]) -> Vec<Peer> {
        ["irithyll", "trashpanda"]
            .map(|name| Peer {
                name: name.to_owned(),
                language: "Rust".to_owned(),
                version: String::new(),
                how: "not measured: built without the feature `peers`".to_owned(),
                per_second: None,
            })
            .into()
    }
}
