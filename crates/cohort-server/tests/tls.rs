//! Certificates: TLS is spoken where there is one, and another is taken while the service runs. One test in a process of
//! its own, which is sent SIGHUP.
#![allow(missing_docs)]

mod running;

use std::path::Path;
use std::time::{Duration, Instant};

use running::Running;

/// Writes a certificate of its own and its key; returns the certificate.
fn certify(cert: &Path, key: &Path) -> String {
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(cert, certified.cert.pem()).unwrap();
    std::fs::write(key, certified.signing_key.serialize_pem()).unwrap();
    certified.cert.pem()
}

/// What `/healthz` answers to somebody who trusts this certificate and no other, over a new connection.
fn health(url: &str, trusted: &str) -> Option<String> {
    let root = ureq::tls::Certificate::from_pem(trusted.as_bytes()).unwrap();
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(ureq::tls::RootCerts::new_with_certs(&[root]))
        .build();
    let agent = ureq::Agent::new_with_config(ureq::Agent::config_builder().tls_config(tls).build());
    let url = format!("{}/healthz", url.replace("http://", "https://"));
    agent.get(url).call().ok()?.body_mut().read_to_string().ok()
}

fn hang_up() {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::HUP).unwrap();
}

#[test]
fn certificates_are_used_and_changed_while_it_runs() {
    let heard = running::hear();
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let first = certify(&cert, &key);
    let files = (cert.clone(), key.clone());
    let service = Running::start_with(move |config| (config.tls_cert, config.tls_key) = files);
    assert_eq!(health(&service.url, &first).as_deref(), Some("ok\n"));
    let plain = ureq::get(format!("{}/healthz", service.url)).call();
    assert!(plain.is_err(), "nothing is said without TLS");

    // It listens for the signal from its start on; nothing tells when exactly.
    std::thread::sleep(Duration::from_millis(500));
    let second = certify(&cert, &key);
    assert!(health(&service.url, &second).is_none(), "not before it is told");
    hang_up();
    let began = Instant::now();
    while health(&service.url, &second).is_none() {
        assert!(began.elapsed() < Duration::from_secs(30), "the certificate is not read anew");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(health(&service.url, &first).is_none());
    let lines = || heard().lines().filter(|line| line.contains("certificate read anew")).count();
    assert_eq!(lines(), 1, "{}", heard());
    assert!(heard().contains("cohort_server::audit"), "{}", heard());

    // Files that cannot be used leave it as it is.
    std::fs::write(&cert, "nothing").unwrap();
    hang_up();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(health(&service.url, &second).as_deref(), Some("ok\n"));
    assert_eq!(lines(), 1, "nothing was changed");
}
