//! What do the servers promise when they acknowledge? Only their monitoring tells whether they sync on every write.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::nats::{Nats, NatsError};

/// The oldest server whose acknowledged writes survive `kill -9` with `sync_interval: always`.
const OLDEST: (u64, u64, u64) = (2, 10, 23);
/// Where monitoring usually is.
const USUAL_PORT: u16 = 8222;
const TIMEOUT: Duration = Duration::from_secs(2);

/// What an answer of the service means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A quorum has synced it: it survives a loss of power everywhere.
    Synced,
    /// A quorum has it in memory; why no more is promised.
    Replicated(String),
}

/// Looks what the servers promise. `wants_sync` refuses servers that are known not to sync.
pub fn look(
    nats: &Nats,
    servers: &str,
    monitor: &str,
    wants_sync: bool,
) -> Result<Durability, NatsError> {
    let version = nats.client().server_info().version;
    if wants_sync && numbers(&version).is_some_and(|found| found < OLDEST) {
        let (major, minor, patch) = OLDEST;
        return Err(NatsError::Setting(format!(
            "the NATS servers are of version {version}, which cannot keep what it acknowledged: {major}.{minor}.{patch} or \
             later is needed; or set durability = \"replicated\""
        )));
    }
    if !wants_sync {
        return Ok(Durability::Replicated("durability = \"replicated\"".to_owned()));
    }
    let given: Vec<String> = match monitor.is_empty() {
        false => monitor.split(',').map(|url| url.trim().to_owned()).collect(),
        true => servers.split(',').filter_map(usual_monitor).collect(),
    };
    let mut silent = Vec::new();
    for url in &given {
        match syncs(url) {
            Some(true) => {}
            Some(false) => {
                return Err(NatsError::Setting(format!(
                    "the NATS server at {url} does not sync on every write: an acknowledged reward could be lost with the \
                     power. Set `jetstream {{ sync_interval: always }}` on every server, or durability = \"replicated\", \
                     which promises that a quorum has it in memory"
                )));
            }
            None if monitor.is_empty() => silent.push(url.clone()),
            None => {
                return Err(NatsError::Setting(format!(
                    "nats_monitor: {url} does not tell how JetStream syncs; expected http://HOST:PORT of a server with \
                     `http` (monitoring) and JetStream"
                )));
            }
        }
    }
    match silent.is_empty() {
        true => Ok(Durability::Synced),
        false => Ok(Durability::Replicated(format!(
            "nobody could be asked whether the servers sync on every write (no monitoring at {}; set nats_monitor)",
            silent.join(", ")
        ))),
    }
}

fn numbers(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.split(['.', '-']).map(str::parse::<u64>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
}

fn usual_monitor(server: &str) -> Option<String> {
    let (_, address) = server.trim().rsplit_once("//").unwrap_or(("", server.trim()));
    let host = address.rsplit_once('@').map_or(address, |(_, host)| host);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    (!host.is_empty()).then(|| format!("http://{host}:{USUAL_PORT}"))
}

/// Whether a server syncs on every write; `None` if it does not tell.
fn syncs(url: &str) -> Option<bool> {
    let body = get(url, "/varz")?;
    let told: serde_json::Value = serde_json::from_str(&body).ok()?;
    let config = told.get("jetstream")?.get("config")?;
    config.get("store_dir")?;
    Some(config.get("sync_always").and_then(serde_json::Value::as_bool).unwrap_or(false))
}

/// What a page of a server says, over plain HTTP.
fn get(url: &str, path: &str) -> Option<String> {
    let address = url.strip_prefix("http://")?.trim_end_matches('/');
    let to = address.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n")
        .ok()?;
    let mut said = Vec::new();
    stream.take(1 << 22).read_to_end(&mut said).ok()?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let (head, body) = said.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|status| *status == "200").map(|_| body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_addresses_are_read() {
        assert_eq!(numbers("2.15.1"), Some((2, 15, 1)));
        assert_eq!(numbers("2.10.23-RC.1"), Some((2, 10, 23)));
        assert!(numbers("2.9.10").unwrap() < OLDEST && numbers("2.11.0").unwrap() > OLDEST);
        assert_eq!(
            usual_monitor("nats://user:pw@a.example:4222").as_deref(),
            Some("http://a.example:8222")
        );
        assert_eq!(usual_monitor(" b:4222").as_deref(), Some("http://b:8222"));
    }
}
