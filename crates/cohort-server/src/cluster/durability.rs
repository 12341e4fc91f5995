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

/// Where servers tell about themselves, and which of them did.
#[derive(Clone, Debug, Default)]
pub struct Monitors {
    urls: Vec<String>,
    /// Those that did not answer when they were last asked.
    pub silent: Vec<String>,
}

/// What one server says.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    /// It keeps what it acknowledges.
    Syncs,
    /// It does not: why, and what to do.
    Fails(String),
    /// It keeps nothing: JetStream is off there.
    KeepsNothing,
    /// It does not answer.
    Nothing,
}

/// Looks what the servers promise. `wants_sync` refuses servers that do not sync, and those of which none tells.
pub fn look(
    nats: &Nats,
    servers: &str,
    monitor: &str,
    wants_sync: bool,
) -> Result<(Durability, Monitors), NatsError> {
    if !wants_sync {
        let why = "durability = \"replicated\"".to_owned();
        return Ok((Durability::Replicated(why), Monitors::default()));
    }
    // The one that is connected tells its version without monitoring.
    let info = nats.client().server_info();
    if let Some(why) = too_old("this node is connected to", &info.version) {
        return Err(NatsError::Setting(why));
    }
    let urls: Vec<String> = match monitor.is_empty() {
        false => monitor.split(',').map(|url| url.trim().to_owned()).collect(),
        true => {
            let known = servers.split(',').map(str::to_owned).chain(info.connect_urls);
            let mut urls: Vec<String> = known.filter_map(|server| usual_monitor(&server)).collect();
            urls.sort();
            urls.dedup();
            urls
        }
    };
    if let Some(odd) = urls.iter().find(|url| !url.starts_with("http://")) {
        let why =
            format!("nats_monitor: {odd} is no address of monitoring; expected http://HOST:PORT");
        return Err(NatsError::Setting(why));
    }
    let mut monitors = Monitors { urls, silent: Vec::new() };
    let (syncing, failing) = monitors.ask();
    match (failing.into_iter().next(), syncing) {
        (Some(why), _) => Err(NatsError::Setting(why)),
        (None, 0) => Err(NatsError::Setting(format!(
            "nobody tells whether the NATS servers sync on every write: no monitoring with JetStream answers at {}. Set \
             `http: 0.0.0.0:8222` in the configuration of every server, and nats_monitor where that is elsewhere; or set \
             durability = \"replicated\", which promises that a quorum has it in memory",
            monitors.urls.join(", ")
        ))),
        _ => Ok((Durability::Synced, monitors)),
    }
}

impl Monitors {
    /// Asks all servers. Returns how many sync, and what is wrong with others; those that do not answer are remembered.
    pub fn ask(&mut self) -> (usize, Vec<String>) {
        let asked = std::thread::scope(|scope| {
            let asking: Vec<_> = self.urls.iter().map(|url| scope.spawn(|| ask(url))).collect();
            let said = asking.into_iter().map(|one| one.join().unwrap_or(Said::Nothing));
            said.collect::<Vec<_>>()
        });
        let (mut syncing, mut failing, mut silent) = (0, Vec::new(), Vec::new());
        for (url, said) in self.urls.iter().zip(asked) {
            match said {
                Said::Syncs => syncing += 1,
                Said::Fails(why) => failing.push(why),
                Said::KeepsNothing => {}
                Said::Nothing => silent.push(url.clone()),
            }
        }
        if !silent.is_empty() && silent != self.silent {
            let silent = silent.join(", ");
            tracing::warn!(
                silent,
                "these NATS servers do not tell whether they sync on every write; they are asked again"
            );
        }
        self.silent = silent;
        (syncing, failing)
    }
}

fn too_old(which: &str, version: &str) -> Option<String> {
    let (major, minor, patch) = OLDEST;
    numbers(version).filter(|found| *found < OLDEST).map(|_| {
        format!(
            "the NATS server {which} is of version {version}, which cannot keep what it acknowledged: \
             {major}.{minor}.{patch} or later is needed on every server; or set durability = \"replicated\""
        )
    })
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

/// What a server says of itself.
fn ask(url: &str) -> Said {
    let told = get(url, "/varz").and_then(|body| serde_json::from_str(&body).ok());
    told.map_or(Said::Nothing, |told| said(url, &told))
}

fn said(url: &str, told: &serde_json::Value) -> Said {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(why) = too_old(&format!("at {url}"), &text(&told["version"])) {
        return Said::Fails(why);
    }
    let config = &told["jetstream"]["config"];
    match (config.get("store_dir"), config["sync_always"].as_bool()) {
        (None, _) => Said::KeepsNothing,
        (Some(_), Some(true)) => Said::Syncs,
        (Some(_), _) => Said::Fails(format!(
            "the NATS server at {url} does not sync on every write: an acknowledged reward could be lost with the \
             power. Set `jetstream {{ sync_interval: always }}` on every server, or durability = \"replicated\", \
             which promises that a quorum has it in memory"
        )),
    }
}

/// What a page of a server says, over plain HTTP.
fn get(url: &str, path: &str) -> Option<String> {
    let address = url.strip_prefix("http://")?.trim_end_matches('/');
    let to = address.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    // In one piece: whoever answers after the first and closes would reset the connection before its answer is read.
    let request =
        format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
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

    #[test]
    fn every_server_is_judged_by_its_version_and_by_how_it_syncs() {
        let of = |version: &str, jetstream: serde_json::Value| {
            said("http://a:8222", &serde_json::json!({"version": version, "jetstream": jetstream}))
        };
        let keeps = |always: bool| serde_json::json!({"config": {"store_dir": "/x", "sync_always": always}});
        assert_eq!(of("2.15.1", keeps(true)), Said::Syncs);
        assert_eq!(of("2.15.1", serde_json::json!({})), Said::KeepsNothing);
        for (version, always, word) in
            [("2.15.1", false, "sync_interval"), ("2.10.22", true, "2.10.22")]
        {
            match of(version, keeps(always)) {
                Said::Fails(why) => assert!(why.contains(word) && why.contains("a:8222"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
        // Nobody answers at a port that is taken by nobody.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut monitors = Monitors { urls: vec![format!("http://{free}")], silent: Vec::new() };
        assert_eq!((monitors.ask(), monitors.silent.len()), ((0, Vec::new()), 1));
    }
}
