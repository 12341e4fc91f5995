//! A stream in checked blocks.
//!
//! ```text
//! block = length u32 · xxh3-64 of (snapshot's number · block's number · bytes) · bytes
//! ```
//!
//! The last block has length 0. Because numbers are part of what is summed, a block that is
//! missing, doubled or from another snapshot is found out too.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::Xxh3;

use crate::bytes::{Malformed, Put, Take};

/// Bytes in a block, the last one excepted.
const BLOCK_BYTES: usize = 1 << 18;

/// Cuts what is written into blocks.
pub struct BlockWriter<W> {
    out: W,
    snapshot: u64,
    block: u64,
    bytes: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    /// Writes the blocks of a snapshot.
    pub fn new(out: W, snapshot: u64) -> Self {
        Self { out, snapshot, block: 0, bytes: Vec::with_capacity(BLOCK_BYTES) }
    }

    /// Writes what is left and the end.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.bytes.is_empty() {
            self.write_block()?;
        }
        self.write_block()?;
        self.out.flush()
    }

    fn write_block(&mut self) -> io::Result<()> {
        self.out.put_u32(self.bytes.len() as u32)?;
        self.out.put_u64(checksum(self.snapshot, self.block, &self.bytes))?;
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        self.block += 1;
        Ok(())
    }
}

impl<W: Write> Write for BlockWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BLOCK_BYTES - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        if self.bytes.len() == BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives out what is in blocks, each only after it was checked.
pub struct BlockReader<R> {
    from: R,
    snapshot: u64,
    block: u64,
    bytes: Vec<u8>,
    given: usize,
    ended: bool,
}

impl<R: Read> BlockReader<R> {
    /// Reads the blocks of a snapshot.
    pub fn new(from: R, snapshot: u64) -> Self {
        Self { from, snapshot, block: 0, bytes: Vec::new(), given: 0, ended: false }
    }

    /// Makes sure that everything was read and nothing follows.
    pub fn finish(mut self) -> Result<(), Malformed> {
        if self.read(&mut [0])? != 0 {
            return Err(Malformed::odd("the state is shorter than the file"));
        }
        match self.from.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(Malformed::odd("bytes after its end")),
        }
    }

    fn read_block(&mut self) -> io::Result<()> {
        let odd = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let cut = |_| odd(format!("the file ends in block {}", self.block));
        let len = self.from.take_u32().map_err(cut)? as usize;
        let sum = self.from.take_u64().map_err(cut)?;
        if len > BLOCK_BYTES {
            return Err(odd(format!("block {} has {len} bytes", self.block)));
        }
        self.bytes.resize(len, 0);
        self.from
            .read_exact(&mut self.bytes)
            .map_err(|_| odd(format!("the file ends in block {}", self.block)))?;
        if sum != checksum(self.snapshot, self.block, &self.bytes) {
            return Err(odd(format!("the checksum of block {} does not match", self.block)));
        }
        self.block += 1;
        self.given = 0;
        self.ended = len == 0;
        Ok(())
    }
}

impl<R: Read> Read for BlockReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given == self.bytes.len() && !self.ended {
            self.read_block()?;
        }
        let given = into.len().min(self.bytes.len() - self.given);
        into[..given].copy_from_slice(&self.bytes[self.given..][..given]);
        self.given += given;
        Ok(given)
    }
}

fn checksum(snapshot: u64, block: u64, bytes: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&snapshot.to_le_bytes());
    hasher.update(&block.to_le_bytes());
    hasher.update(bytes);
    hasher.digest()
}
