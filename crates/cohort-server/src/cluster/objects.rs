//! Snapshots of partitions in JetStream's object store, as a folder: any node can take over from there.
//!
//! An object is there when all of it is, so that a file that is being written needs no name of its own.

use std::io::{self, Read, Write};
use std::time::Duration;

use async_nats::jetstream::object_store::{Config, ObjectMetadata, ObjectStore};
use async_nats::jetstream::stream::StorageType;
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::nats::{Nats, NatsError};
use crate::snapshot::UNFINISHED;
use crate::snapshot::disk::{Disk, DiskFile};

/// Bytes that wait between who writes and who sends.
const PIPE_BYTES: usize = 1 << 20;

/// How long the next bytes of an object are waited for.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The snapshots of one partition.
pub struct ObjectFolder {
    nats: Nats,
    store: ObjectStore,
    /// What the names of its objects begin with.
    prefix: String,
    /// Whether an object that cannot be read now is to be tried again later.
    pub waits: bool,
}

/// The store of all snapshots, made where it is not there, on so many servers.
pub fn open_store(nats: &Nats, replicas: usize) -> Result<ObjectStore, NatsError> {
    let bucket = nats.named("snapshots");
    nats.wait(async {
        if let Ok(store) = nats.context().get_object_store(&bucket).await {
            return Ok(store);
        }
        let storage = StorageType::File;
        let config =
            Config { bucket: bucket.clone(), storage, num_replicas: replicas, ..Config::default() };
        let made = nats.context().create_object_store(config).await;
        made.map_err(|why| NatsError::jetstream(format!("make the object store {bucket}"), why))
    })
}

impl ObjectFolder {
    /// Those of one partition.
    pub fn new(nats: &Nats, store: ObjectStore, partition: &str) -> Self {
        Self { nats: nats.clone(), store, prefix: format!("{partition}/"), waits: true }
    }

    fn object(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.strip_suffix(UNFINISHED).unwrap_or(name))
    }
}

fn failed(why: impl std::fmt::Display) -> io::Error {
    io::Error::other(why.to_string())
}

/// A file on its way.
struct Sending {
    nats: Nats,
    pipe: Option<DuplexStream>,
    sent: Option<tokio::task::JoinHandle<Result<(), String>>>,
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let pipe = self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        self.nats.wait(pipe.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for Sending {
    fn sync(&mut self) -> io::Result<()> {
        if let Some(mut pipe) = self.pipe.take() {
            self.nats.wait(pipe.shutdown())?;
        }
        match self.sent.take() {
            Some(sent) => self.nats.wait(sent).map_err(failed)?.map_err(failed),
            None => Ok(()),
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        // Half of a file must not become an object.
        if let Some(sent) = self.sent.take() {
            sent.abort();
        }
    }
}

/// An object that is being read.
struct Receiving<R> {
    nats: Nats,
    object: R,
}

impl<R: tokio::io::AsyncRead + Unpin> Read for Receiving<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.object.read(into);
        // The clock of a timeout is that of the client's threads.
        let in_time = async { tokio::time::timeout(READ_TIMEOUT, read).await };
        self.nats.wait(in_time).unwrap_or_else(|late| Err(late.into()))
    }
}

impl Disk for ObjectFolder {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let (pipe, mut end) = tokio::io::duplex(PIPE_BYTES);
        let (store, name) = (self.store.clone(), self.object(name));
        let sent = self.nats.runtime().spawn(async move {
            let put = store.put(ObjectMetadata { name, ..ObjectMetadata::default() }, &mut end);
            put.await.map(|_| ()).map_err(|why| why.to_string())
        });
        Ok(Box::new(Sending { nats: self.nats.clone(), pipe: Some(pipe), sent: Some(sent) }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read>> {
        let object = self.nats.wait(self.store.get(self.object(name))).map_err(failed)?;
        Ok(Box::new(Receiving { nats: self.nats.clone(), object }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.object(from) == self.object(to) {
            return Ok(());
        }
        let metadata = async_nats::jetstream::object_store::UpdateMetadata {
            name: self.object(to),
            ..Default::default()
        };
        let renamed = self.store.update_metadata(self.object(from), metadata);
        self.nats.wait(renamed).map(|_| ()).map_err(failed)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.nats.wait(self.store.delete(self.object(name))).map_err(failed)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.nats.wait(async {
            let mut objects = self.store.list().await.map_err(failed)?;
            let mut names = Vec::new();
            while let Some(object) = objects.next().await {
                let name = object.map_err(failed)?.name;
                names.extend(name.strip_prefix(&self.prefix).map(str::to_owned));
            }
            Ok(names)
        })
    }

    fn may_be_whole(&self, why: &io::Error) -> bool {
        // Bytes that are not those that were written, or too few of them, are damage; all else is the way to them.
        self.waits
            && !matches!(why.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }
}
