//! Clients that cost little: requests made beforehand, answers looked at only as far as needed.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

/// Where requests come from.
#[derive(Clone)]
pub struct Workload(Rc<dyn Fn() -> Step>);

/// A request, which is timed, and perhaps one more, made from its answer, which is not.
pub struct Step {
    pub request: Vec<u8>,
    pub follow: Option<Follow>,
}

pub type Follow = Box<dyn FnOnce(&str) -> Vec<u8>>;

impl Workload {
    /// Steps of one request.
    pub fn new(next: impl Fn() -> Vec<u8> + 'static) -> Self {
        Self::of_steps(move || Step { request: next(), follow: None })
    }

    /// Steps of two.
    pub fn of_steps(next: impl Fn() -> Step + 'static) -> Self {
        Self(Rc::new(next))
    }
}

/// What was measured.
pub struct Measured {
    pub answered: usize,
    pub rate: f64,
    pub p99_ms: f64,
}

/// The bytes of a request.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    send("POST", path, body)
}

/// The same by another method.
pub fn send(method: &str, path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// A connection that is kept.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the service listens");
        stream.set_nodelay(true).expect("a socket option");
        Self { stream, buffer: Vec::with_capacity(1 << 16) }
    }

    /// Sends and waits for the answer; returns its status.
    pub async fn ask(&mut self, request: &[u8]) -> u16 {
        let mut rest = request;
        while !rest.is_empty() {
            self.stream.writable().await.expect("the service reads");
            match self.stream.try_write(rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(why) => panic!("the service went away: {why}"),
            }
        }
        self.buffer.clear();
        let mut whole = usize::MAX;
        loop {
            // The head is looked at until it is there, and not again for every piece of a long answer.
            if whole == usize::MAX || self.buffer.len() >= whole {
                match self.head() {
                    Some((status, length)) if self.buffer.len() >= length => return status,
                    head => whole = head.map_or(usize::MAX, |(_, length)| length),
                }
            }
            self.stream.readable().await.expect("the service answers");
            let mut some = [0; 16384];
            match self.stream.try_read(&mut some) {
                Ok(0) => panic!("the service went away"),
                Ok(read) => self.buffer.extend_from_slice(&some[..read]),
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(why) => panic!("the service went away: {why}"),
            }
        }
    }

    /// The status and the length of all of the answer, once its head is there.
    fn head(&self) -> Option<(u16, usize)> {
        let head = self.buffer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let text = std::str::from_utf8(&self.buffer[..head]).ok()?;
        let status = text.get(9..12)?.parse().ok()?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
        });
        Some((status, head + 4 + length.unwrap_or(0)))
    }

    /// The last answer.
    pub fn answer(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }

    /// Sum and count of one of the service's histograms.
    pub async fn histogram(&mut self, name: &str) -> (f64, f64) {
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(self.ask(request).await, 200);
        let text = self.answer();
        let value = |name: String| {
            let line = text.lines().find(|line| line.starts_with(&name));
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
        };
        (value(format!("{name}_sum")), value(format!("{name}_count")))
    }
}

/// Clients that ask again as soon as they are answered.
pub async fn closed_loop(
    address: &str,
    clients: usize,
    seconds: f64,
    workload: &Workload,
) -> Measured {
    run(address, clients, seconds, None, workload).await
}

/// Clients that ask at a fixed rate; an answer's time counts from when it should have been asked.
pub async fn open_loop(
    address: &str,
    clients: usize,
    seconds: f64,
    rate: f64,
    workload: &Workload,
) -> Measured {
    run(address, clients, seconds, Some(rate), workload).await
}

async fn run(
    address: &str,
    clients: usize,
    seconds: f64,
    rate: Option<f64>,
    workload: &Workload,
) -> Measured {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Connection::open(address).await);
    }
    let mut working = Vec::new();
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(seconds);
    for (client, mut connection) in connections.into_iter().enumerate() {
        let workload = workload.clone();
        let gap = rate.map(|rate| Duration::from_secs_f64(clients as f64 / rate));
        working.push(tokio::task::spawn_local(async move {
            let mut took_ms = Vec::new();
            let offset = gap.map(|gap| gap.mul_f64(client as f64 / clients as f64));
            let mut due = Instant::now() + offset.unwrap_or_default();
            while due < end {
                if gap.is_some() {
                    tokio::time::sleep_until(due.into()).await;
                } else {
                    due = Instant::now();
                }
                let Step { request, follow } = (workload.0)();
                let status = connection.ask(&request).await;
                took_ms.push(due.elapsed().as_secs_f64() * 1e3);
                assert_eq!(status, 200, "{}", connection.answer());
                if let Some(follow) = follow {
                    let request = follow(&connection.answer());
                    let status = connection.ask(&request).await;
                    assert_eq!(status, 200, "{}", connection.answer());
                }
                due += gap.unwrap_or_default();
            }
            took_ms
        }));
    }
    let mut took_ms = Vec::new();
    for client in working {
        took_ms.extend(client.await.expect("a client"));
    }
    let rate = took_ms.len() as f64 / started.elapsed().as_secs_f64();
    took_ms.sort_by(f64::total_cmp);
    let p99_ms = took_ms.get(took_ms.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    Measured { answered: took_ms.len(), rate, p99_ms }
}
