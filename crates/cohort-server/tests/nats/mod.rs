//! NATS servers that a test owns: started on free ports of this machine, killed, stopped, started again.
#![allow(dead_code, missing_docs)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cohort_server::cluster::nats::{Nats, NatsOptions};

/// One server or more, ended when dropped.
pub struct Servers {
    folder: tempfile::TempDir,
    /// Client, cluster and monitoring ports.
    ports: Vec<[u16; 3]>,
    running: Vec<Option<Running>>,
    always: bool,
    /// More of each server's configuration, and how clients connect because of that.
    more: (String, NatsOptions),
}

/// A server, and who kills it when this process ends in whatever way: a shell that reads from us until then.
struct Running {
    server: Child,
    watch: Child,
}

/// Kills a process when this one ends.
pub fn watch_over(process: u32) -> Child {
    let script = format!("cat > /dev/null; kill -9 {process} 2> /dev/null");
    Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The program, as `scripts/install-test-tools` leaves it, or on the path.
fn program() -> PathBuf {
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin/nats-server");
    let named = std::env::var_os("COHORT_NATS_SERVER").map(PathBuf::from);
    named.unwrap_or_else(|| match installed.exists() {
        true => installed,
        false => "nats-server".into(),
    })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Servers {
    /// So many servers that sync on every write.
    pub fn start(count: usize) -> Self {
        Self::start_with(count, true)
    }

    /// The same, that sync on every write or not.
    pub fn start_with(count: usize, always: bool) -> Self {
        Self::start_more(count, always, String::new(), NatsOptions::default())
    }

    /// The same with more in their configuration, and what clients need for that.
    pub fn start_more(count: usize, always: bool, more: String, options: NatsOptions) -> Self {
        let ports = (0..count).map(|_| [free_port(), free_port(), free_port()]).collect();
        let folder = tempfile::tempdir().unwrap();
        let running = (0..count).map(|_| None).collect();
        let mut servers = Self { folder, ports, running, always, more: (more, options) };
        (0..count).for_each(|server| servers.start_again(server));
        servers.wait_until_ready();
        servers
    }

    /// The folder of one server.
    pub fn folder(&self, server: usize) -> PathBuf {
        self.folder.path().join(format!("s{server}"))
    }

    /// Starts one that does not run.
    pub fn start_again(&mut self, server: usize) {
        let [client, cluster, monitor] = self.ports[server];
        let routes: Vec<String> =
            self.ports.iter().map(|ports| format!("nats://127.0.0.1:{}", ports[1])).collect();
        let sync = if self.always { "sync_interval: always" } else { "" };
        let mut config = format!(
            "server_name: s{server}\nlisten: 127.0.0.1:{client}\nhttp: 127.0.0.1:{monitor}\n\
             jetstream {{ store_dir: {:?}, {sync} }}\n",
            self.folder(server)
        );
        if self.ports.len() > 1 {
            config += &format!(
                "cluster {{ name: test, listen: 127.0.0.1:{cluster}, routes: [{}] }}\n",
                routes.join(", ")
            );
        }
        config += &self.more.0;
        let file = self.folder.path().join(format!("s{server}.conf"));
        std::fs::write(&file, config).unwrap();
        let log = self.folder.path().join(format!("s{server}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(program())
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("nats-server cannot be started: run scripts/install-test-tools");
        let watch = watch_over(child.id());
        self.running[server] = Some(Running { server: child, watch });
    }

    /// `kill -9`.
    pub fn kill(&mut self, server: usize) {
        if let Some(Running { mut server, mut watch }) = self.running[server].take() {
            server.kill().unwrap();
            server.wait().unwrap();
            watch.kill().unwrap();
            watch.wait().unwrap();
        }
    }

    pub fn count(&self) -> usize {
        self.ports.len()
    }

    pub fn is_running(&self, server: usize) -> bool {
        self.running[server].is_some()
    }

    /// The process of one that runs.
    pub fn process(&self, server: usize) -> Option<u32> {
        self.running[server].as_ref().map(|running| running.server.id())
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        let urls = self.ports.iter().map(|ports| format!("nats://127.0.0.1:{}", ports[0]));
        urls.collect::<Vec<_>>().join(",")
    }

    /// The port for clients of one.
    pub fn port(&self, server: usize) -> u16 {
        self.ports[server][0]
    }

    /// Where servers tell about themselves.
    pub fn monitor(&self) -> String {
        let urls = self.ports.iter().map(|ports| format!("http://127.0.0.1:{}", ports[2]));
        urls.collect::<Vec<_>>().join(",")
    }

    pub fn options(&self) -> NatsOptions {
        NatsOptions { servers: self.url(), prefix: "cohort".to_owned(), ..self.more.1.clone() }
    }

    pub fn connect(&self) -> Nats {
        Nats::connect(&self.options(), "test").unwrap()
    }

    /// Waits until JetStream answers, with a leader.
    pub fn wait_until_ready(&self) {
        let started = Instant::now();
        loop {
            let ready = Nats::connect(&self.options(), "probe").is_ok_and(|nats| {
                nats.open_log("probe", self.ports.len().min(3)).is_ok()
                    && nats.wait(nats.context().delete_stream(nats.named("probe"))).is_ok()
            });
            if ready {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "JetStream does not become ready");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        (0..self.ports.len()).for_each(|server| self.kill(server));
        if std::thread::panicking()
            && let Ok(to) = std::env::var("COHORT_KEEP_NATS_LOGS")
        {
            for server in 0..self.ports.len() {
                let name = format!("s{server}.log");
                let _ = std::fs::copy(self.folder.path().join(&name), Path::new(&to).join(name));
            }
        }
    }
}
