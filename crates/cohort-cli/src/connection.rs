//! The connection to a running service.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::failure::Failure;

/// The address of the service, and the key.
#[derive(Args)]
pub struct Connection {
    /// The address of the service
    #[arg(long, global = true, default_value = "http://127.0.0.1:7700")]
    url: String,
    /// The admin key, where the service has one
    #[arg(long, global = true, env = "COHORT_SERVE_ADMIN_KEY", hide_env_values = true)]
    key: Option<String>,
    /// A file with the admin key; unlike a flag, other users of this machine cannot see it
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "key")]
    key_file: Option<PathBuf>,
}

/// Percent-encodes a name or an id as one segment of a path.
pub fn escaped(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let escape =
        |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    match name {
        // Unescaped, these would mean the folder itself and its parent.
        "." | ".." => name.replace('.', "%2E"),
        name => name.bytes().map(escape).collect(),
    }
}

impl Connection {
    /// Sends a request; returns the answer.
    pub fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        let mut response = self.send(method, path, body)?;
        let text = response.body_mut().read_to_string();
        let text = text.map_err(|why| self.unreachable(path, &why))?;
        Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Downloads to a file, atomically.
    pub fn download(&self, path: &str, to: &Path) -> Result<(), Failure> {
        let mut response = self.send("GET", path, None)?;
        let mut body = response.body_mut().as_reader();
        cohort_lab::results::write_whole(to, |file| {
            let mut some = vec![0; 1 << 16];
            loop {
                match body.read(&mut some)? {
                    0 => return Ok(()),
                    read => file.write_all(&some[..read])?,
                }
            }
        })?;
        Ok(())
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<ureq::http::Response<ureq::Body>, Failure> {
        let url = format!("{}{path}", self.url.trim_end_matches('/'));
        let mut request = ureq::http::Request::builder().method(method).uri(&url);
        if let Some(key) = self.key()? {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let text = body.map_or_else(String::new, |body| body.to_string());
        let request = request
            .header("Content-Type", "application/json")
            .body(text)
            .map_err(|why| Failure::bad_input(format!("{url}: {why}")))?;
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .build();
        let asked = ureq::Agent::new_with_config(config).run(request);
        let mut response = asked.map_err(|why| self.unreachable(path, &why))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.body_mut().read_to_string().unwrap_or_default();
        let said: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let sentence = said["error"]["message"].as_str().unwrap_or("no reason was given");
        Err(Failure::bad_input(format!("{sentence} ({status})")))
    }

    fn key(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.key_file else { return Ok(self.key.clone()) };
        let key = std::fs::read_to_string(file)
            .map_err(|why| Failure::bad_input(format!("{}: {why}", file.display())))?;
        Ok(Some(key.trim().to_owned()))
    }

    fn unreachable(&self, path: &str, why: &ureq::Error) -> Failure {
        let url = self.url.trim_end_matches('/');
        Failure::failed(format!("{url}{path}: {why}; is the service running there?"))
    }
}
