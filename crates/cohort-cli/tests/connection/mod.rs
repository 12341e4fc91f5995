//! A minimal HTTP client over one kept-alive connection, for tests that kill the service.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A connection; after any error it is not used again.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn open(address: &str) -> Option<Self> {
        let address = address.parse().ok()?;
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        Some(Self(BufReader::new(stream)))
    }

    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut length = 0;
        loop {
            line.clear();
            self.0.read_line(&mut line).ok()?;
            match line.trim().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().ok()?;
                }
                Some(_) => {}
                None if line.trim().is_empty() && !line.is_empty() => break,
                None => return None,
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }
}
