//! docs/operate.md, done as it says: its commands, the unit's command and variables, keys, forgetting, a copy that is
//! put back.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// A machine: where the documents say `/etc/cohort`, `/var/lib/cohort`, `/backup` and `cohort`, there are folders
/// and the program of this test.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["etc", "lib", "backup", "bin"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let program = folder.path().join("bin/cohort");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cohort"), program).unwrap();
        Self(folder)
    }

    /// A line of a document with the paths of this machine.
    fn here(&self, line: &str) -> String {
        let root = self.0.path().display();
        line.replace("/etc/cohort", &format!("{root}/etc"))
            .replace("/var/lib/cohort", &format!("{root}/lib/cohort"))
            .replace("/backup/", &format!("{root}/backup/"))
            .replace("/usr/local/bin/", &format!("{root}/bin/"))
    }

    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        let path = std::env::var("PATH").unwrap();
        shell.args(["-c", &self.here(line)]);
        shell.env("PATH", format!("{}/bin:{path}", self.0.path().display()));
        shell
    }

    /// Runs the lines of a document's blocks that begin so; there must be some.
    fn run(&self, text: &str, beginning: &str) {
        let is_one = |line: &&str| line.starts_with(beginning);
        let lines: Vec<&str> = text.split("```").skip(1).step_by(2).flat_map(str::lines).collect();
        let lines: Vec<&&str> = lines.iter().filter(|line| is_one(line)).collect();
        assert!(!lines.is_empty(), "docs/operate.md has no line that begins with `{beginning}`");
        for line in lines {
            let done = self.shell(line).output().unwrap();
            assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }

    /// Starts the service as the unit does.
    fn start(&self, unit: &str) -> Service {
        let of = |key| unit.lines().filter_map(move |line: &str| line.strip_prefix(key));
        let mut command = self.shell(&format!("exec {}", of("ExecStart=").next().unwrap()));
        for variable in of("Environment=") {
            let (name, value) = variable.split_once('=').unwrap();
            command.env(name, self.here(value));
        }
        command.env("COHORT_SERVE_LISTEN", "127.0.0.1:0").env("COHORT_SERVE_LOG_LEVEL", "error");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let url = said.split_whitespace().find(|word| word.starts_with("http")).unwrap().to_owned();
        Service { child, url }
    }
}

struct Service {
    child: Child,
    url: String,
}

impl Service {
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn ask(&self, method: &str, path: &str, body: &Value, key: &str) -> (u16, Value) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build();
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Authorization", format!("Bearer {key}"))
            .header("Content-Type", "application/json");
        let agent = ureq::Agent::new_with_config(agent);
        let mut answer = match body {
            Value::Null => agent.run(request.body(()).unwrap()).unwrap(),
            body => agent.run(request.body(body.to_string()).unwrap()).unwrap(),
        };
        let text = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program that may not be installed; without it a note is printed.
fn check_with(program: &str, arguments: &[&str]) {
    match Command::new(program).args(arguments).output() {
        Ok(done) => {
            let said = [done.stdout, done.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(done.status.success(), "{program} {arguments:?}: {said}");
        }
        Err(why) => {
            println!("not checked with {program} {arguments:?}, which cannot be run: {why}")
        }
    }
}

/// The files that the document names are what the programs take that they are for.
#[test]
fn the_unit_the_rules_and_the_proxy_are_valid() {
    let machine = Machine::new();
    let root = machine.0.path();
    let file =
        |name: &str| std::fs::read_to_string(Path::new(DOCS).join("operate").join(name)).unwrap();
    let written = |name: &str, text: String| {
        let path = root.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let unit = written("cohort.service", machine.here(&file("cohort.service")));
    check_with("systemd-analyze", &["verify", "--man=no", &unit]);
    let rules = written("rules.yml", file("prometheus-rules.yml"));
    check_with("promtool", &["check", "rules", &rules]);
    // Without its certificate, which there is none of here, and with a socket that anybody may listen on.
    let is_kept = |line: &&str| !line.trim_start().starts_with("ssl_certificate");
    let text = file("nginx.conf");
    assert!(text.contains("listen 443 ssl;") && text.contains("ssl_certificate "));
    let lines: Vec<&str> = text.lines().filter(is_kept).collect();
    let listen = format!("listen unix:{}/nginx;", root.display());
    let proxy = written("proxy.conf", lines.join("\n").replace("listen 443 ssl;", &listen));
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|name| format!("{name}_temp_path {}/{name};", root.display()));
    let around = format!(
        "pid {}/pid; error_log stderr; events {{}} http {{ access_log off; {} include {proxy}; }}",
        root.display(),
        temporary.join(" ")
    );
    check_with("nginx", &["-t", "-e", "stderr", "-c", &written("nginx.conf", around)]);
}

/// What stands in a document between two words.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("`{before}` is not there")).1;
    rest.split_once(after).unwrap().0
}

#[test]
fn the_service_is_installed_used_copied_and_put_back_as_the_document_says() {
    let machine = Machine::new();
    let text = std::fs::read_to_string(Path::new(DOCS).join("operate.md")).unwrap();
    let unit = std::fs::read_to_string(Path::new(DOCS).join("operate/cohort.service")).unwrap();
    machine.run(&text, "cohort serve --print-config");
    machine.run(&text, "head -c 32 /dev/urandom");
    let keys = machine.0.path().join("etc/admin-keys");
    let admin = std::fs::read_to_string(&keys).unwrap().trim().to_owned();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&keys).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o400, "nobody else reads the key");

    let service = machine.start(&unit);
    let (status, made) =
        service.ask("POST", "/v1/apps", &json!({"name": "shop", "dim": 2}), &admin);
    assert_eq!(status, 201, "{made}");
    assert_eq!(service.ask("POST", "/v1/apps", &json!({"name": "b", "dim": 2}), "guess").0, 403);
    let web = made["key"]["key"].as_str().unwrap();
    let decide = json!({"user": "ann", "decision_id": "d",
        "items": [{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]});
    assert_eq!(service.ask("POST", "/v1/apps/shop/decide", &decide, web).0, 200);
    let reward = json!({"decision_id": "d", "reward": 1});
    assert_eq!(service.ask("POST", "/v1/apps/shop/reward", &reward, web).0, 200);

    // A key as the document makes one.
    let terms = between(&text, "`POST /v1/apps/shop/keys` with `", "`");
    let terms: Value = serde_json::from_str(terms).unwrap();
    let (status, made) = service.ask("POST", "/v1/apps/shop/keys", &terms, &admin);
    assert_eq!(status, 201, "{made}");
    let read = made["key"].as_str().unwrap();
    assert_eq!(service.ask("POST", "/v1/apps/shop/decide", &decide, read).0, 403);
    let export = between(&text, "- `GET ", "`");
    let (status, known) = service.ask("GET", export, &Value::Null, read);
    assert_eq!((status, &known["decisions"][0]["status"]), (200, &json!("rewarded")));

    // Another admin key, without a restart.
    std::fs::remove_file(&keys).unwrap();
    std::fs::write(&keys, format!("{admin}\nanother key of the admin\n")).unwrap();
    service.signal("-HUP");
    let opens = |key| service.ask("GET", "/v1/apps", &Value::Null, key).0 == 200;
    for _ in 0..100 {
        if opens("another key of the admin") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(opens("another key of the admin") && opens(&admin));
    assert_eq!(service.ask("GET", "/healthz", &Value::Null, "").0, 200);

    machine.run(&text, "cohort backup");
    // What comes after the copy is not in it.
    let forget = between(&text, "(`DELETE ", "`");
    assert_eq!(service.ask("DELETE", forget, &Value::Null, &admin).0, 204);
    // The journal has its decisions until it is shortened, as the document says, and no answer tells them.
    let (status, said) = service.ask("GET", export, &Value::Null, &admin);
    assert_eq!((status, &said["error"]["code"]), (404, &json!("user_unknown")), "{said}");
    service.signal("-TERM");
    drop(service);
    std::fs::remove_dir_all(machine.0.path().join("lib/cohort")).unwrap();
    machine.run(&text, "cohort restore");
    let service = machine.start(&unit);
    let (status, app) = service.ask("GET", "/v1/apps/shop", &Value::Null, web);
    assert_eq!((status, &app["rewards"]), (200, &json!(1)), "{app}");
    assert_eq!(service.ask("GET", export, &Value::Null, read).0, 200);
}
