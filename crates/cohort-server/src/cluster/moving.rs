//! An embedded folder becomes a cluster, and a cluster a folder. Users are taken apart, or put together, in snapshots before any event: what
//! was learned, decisions that wait, catalogues, keys and counts go along; the log of the past stays where it is.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::front::partition_of;
use super::log::Log;
use super::members::{Bucket, HEARTBEAT, Shape, View};
use super::nats::Nats;
use super::objects::{ObjectFolder, open_store};
use super::partition::refuse_lost;
use super::replica::{ReadOnly, fold};
use crate::config::Config;
use crate::engine::recovery::recover;
use crate::journal::segments::SegmentJournal;
use crate::server::{ServeError, lock};
use crate::snapshot::Snapshots;
use crate::snapshot::disk::{Disk, Folder};
use crate::state::State;

/// What was moved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moved {
    /// How many apps.
    pub apps: usize,
    /// How many users of all of them.
    pub users: usize,
    /// Over how many partitions.
    pub partitions: u32,
    /// Apps whose models begin anew: each partition had learned in a way that cannot be put together.
    pub anew: Vec<String>,
}

fn refused(why: impl Into<String>) -> ServeError {
    ServeError::Cluster { why: why.into() }
}

fn users_of(state: &State) -> usize {
    state.apps().values().map(|app| app.users().count()).sum()
}

/// Refuses while a node of the cluster lives: it speaks at least once in this time.
fn wait_for_silence(nats: &Nats, bucket: &Bucket) -> Result<(), ServeError> {
    let beats = || -> Result<Vec<(String, u64)>, ServeError> {
        let view = Mutex::new(View::default());
        nats.wait(bucket.read_all(&view))?;
        let view = view.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let nodes = view.nodes(Instant::now()).into_iter();
        Ok(nodes.map(|(state, _)| (state.node, state.beat)).collect())
    };
    let before = beats()?;
    if before.is_empty() {
        return Ok(());
    }
    std::thread::sleep(4 * HEARTBEAT + Duration::from_millis(200));
    let after = beats()?;
    match after.iter().find(|node| !before.contains(node)) {
        Some((node, _)) => Err(refused(format!(
            "node {node} of this cluster runs; stop all nodes first, since what they do meanwhile would not be moved"
        ))),
        None => Ok(()),
    }
}

/// Refuses a cluster into which a folder was not moved to the end.
pub(super) fn refuse_half_imported(nats: &Nats, bucket: &Bucket) -> Result<(), ServeError> {
    if nats.wait(bucket.is_importing())? {
        return Err(refused(
            "a folder is being moved into this cluster, or its move was broken off and not all users are there; \
             let `cohort cluster import` end, or run it again with the same folder",
        ));
    }
    Ok(())
}

fn write<D: Disk>(disk: D, state: &mut State) -> Result<(), ServeError> {
    Snapshots::new(disk).write(0, |out| state.save(out)).map_err(|why| refused(why.to_string()))
}

/// Spreads the data folder of the configuration over the partitions of a cluster that has nothing yet.
pub fn import(config: &Config) -> Result<Moved, ServeError> {
    let folder = &config.data_dir;
    if !folder.join("journal").is_dir() && !folder.join("snapshots").is_dir() {
        let name = folder.display();
        return Err(refused(format!(
            "{name} is not a data folder of the service; name one with --data-dir"
        )));
    }
    let _locked = lock(folder)?;
    let journal = SegmentJournal::open(&folder.join("journal"))?;
    let disk = Folder::new(&folder.join("snapshots")).map_err(|why| refused(why.to_string()))?;
    let mut whole = recover(&journal, &Snapshots::new(disk))?.state;
    if !whole.can_be_saved() {
        return Err(refused(
            "the policy of an app cannot be kept in a snapshot, and so cannot be moved",
        ));
    }
    let nats = Nats::connect(&config.nats_options(), "import")?;
    let shape_wanted = Shape { partitions: config.partitions, replicas: config.replicas(&nats) };
    let bucket = Bucket::open(&nats, shape_wanted.replicas)?;
    let shape = nats.wait(bucket.shape(&shape_wanted))?;
    wait_for_silence(&nats, &bucket)?;
    let names: Vec<String> = (0..=shape.partitions).map(|at| shape.name_of(at)).collect();
    for name in &names {
        let log = nats.open_log(name, shape.replicas)?;
        let bounds = log.bounds().map_err(|why| refused(why.to_string()))?;
        if bounds.last > 0 {
            return Err(refused(format!(
                "the stream {} has messages: a folder is moved into a cluster that has nothing yet; use another --nats-prefix",
                log.name()
            )));
        }
    }
    let store = open_store(&nats, shape.replicas)?;
    let mut bytes = Vec::new();
    whole.save(&mut bytes).map_err(|why| refused(why.to_string()))?;
    let moved = Moved {
        apps: whole.apps().len(),
        users: users_of(&whole),
        partitions: shape.partitions,
        anew: Vec::new(),
    };
    drop(whole);
    for (index, name) in (0..).zip(&names) {
        let mut part =
            State::load(&mut bytes.as_slice()).map_err(|why| refused(why.to_string()))?;
        let is_control = index == shape.partitions;
        let here = |app: &str, user: &str| {
            !is_control && partition_of(app, user, shape.partitions) == index
        };
        // What was counted of all is in the first partition.
        part.keep_users(here, index == 0).map_err(refused)?;
        if index == 0 {
            // Partitions without their users would look like new ones: until all are there no node starts.
            nats.wait(bucket.set_importing(true))?;
        }
        write(ObjectFolder::new(&nats, store.clone(), name), &mut part)?;
        tracing::info!(partition = name, users = users_of(&part), "moved");
    }
    nats.wait(bucket.set_importing(false))?;
    Ok(moved)
}

/// Puts a cluster whose nodes are stopped together in a data folder that does not exist.
pub fn export(config: &Config) -> Result<Moved, ServeError> {
    let folder = &config.data_dir;
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let name = folder.display();
        return Err(refused(format!(
            "{name} is there already and is not empty; name a folder that does not exist"
        )));
    }
    let nats = Nats::connect(&config.nats_options(), "export")?;
    let bucket = Bucket::open(&nats, config.replicas(&nats))?;
    let shape = nats.wait(bucket.known_shape())?;
    let shape = shape.ok_or_else(|| {
        refused("there is no cluster on these servers; look at --nats and --nats-prefix")
    })?;
    refuse_half_imported(&nats, &bucket)?;
    wait_for_silence(&nats, &bucket)?;
    let store = open_store(&nats, shape.replicas)?;
    let known = Mutex::new(View::default());
    nats.wait(bucket.read_all(&known))?;
    let known = known.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let read = |index: u32| -> Result<State, ServeError> {
        let name = &shape.name_of(index);
        let log = nats.log(name);
        refuse_lost(&log, known.lease(index).0.was_written())?;
        ReadOnly::open(log.clone(), known.heard(index))?;
        let snapshots = Snapshots::new(ObjectFolder::new(&nats, store.clone(), name));
        Ok(fold(log, &snapshots)?.0.state)
    };
    let parts: Result<Vec<State>, ServeError> = (0..shape.partitions).map(read).collect();
    let mut parts = parts?;
    let mut anew = Vec::new();
    let mut whole = match shape.partitions {
        // It has all users, and all that was fitted.
        1 => {
            let mut only = parts.remove(0);
            only.keep_users(|_, _| true, true).map_err(refused)?;
            only
        }
        _ => {
            let mut whole = read(shape.control())?;
            anew = whole.take_in(parts).map_err(refused)?;
            whole
        }
    };
    let moved = Moved {
        apps: whole.apps().len(),
        users: users_of(&whole),
        partitions: shape.partitions,
        anew,
    };
    let disk = disk_of(folder)?;
    write(disk, &mut whole)?;
    Ok(moved)
}

fn disk_of(folder: &Path) -> Result<Folder, ServeError> {
    let fails = |why| ServeError::Folder { folder: folder.display().to_string(), why };
    std::fs::create_dir_all(folder).map_err(fails)?;
    Folder::new(&folder.join("snapshots")).map_err(fails)
}
