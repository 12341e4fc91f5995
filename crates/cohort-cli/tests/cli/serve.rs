//! `cohort serve`: errors at start-up.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::command::{Called, called, command};
use crate::serving::Serving;

/// `cohort serve` on a folder that cannot be used, so that it ends, with one variable set.
fn serve_with(name: &str, value: &[u8]) -> Called {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(file.path())
        .env(name, OsStr::from_bytes(value))
        .output();
    called(output.unwrap())
}

#[test]
fn variables_of_others_may_be_anything() {
    let of_others = serve_with("SOMETHING_ELSE", b"caf\xe9");
    assert_eq!(of_others.code, 1, "{}", of_others.err);
    assert!(of_others.err.contains("data folder"), "it got as far: {}", of_others.err);
    let ours = serve_with("COHORT_SERVE_LISTEN", b"caf\xe9");
    assert_eq!(ours.code, 2, "{}", ours.err);
    assert!(ours.err.contains("environment COHORT_SERVE_LISTEN: its value is not UTF-8"));
}

#[test]
fn a_folder_that_is_served_is_not_served_twice() {
    let service = Serving::start(&["--data-dir", "data"], 1);
    let data = service.folder.path().join("data");
    let output = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).output();
    let second = called(output.unwrap());
    assert_eq!((second.code, second.out.as_str()), (1, ""));
    assert!(second.err.contains("another process serves the data folder"), "{}", second.err);
}

#[test]
fn an_address_is_a_host_and_a_port() {
    let bare = called(command(&["serve", "--listen", "18010"]).output().unwrap());
    assert_eq!(bare.code, 2);
    assert!(bare.err.contains("\"18010\": expected HOST:PORT"), "{}", bare.err);
}

#[test]
fn a_certificate_that_cannot_be_used_is_named_before_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let tls = ["--tls-cert", "none.pem", "--tls-key", "none.pem"];
    let output = command(&["serve", "--listen", "127.0.0.1:0"])
        .args(tls)
        .current_dir(folder.path())
        .output();
    let ended = called(output.unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (1, ""), "nothing listens");
    assert!(ended.err.contains("tls_cert none.pem cannot be used"), "{}", ended.err);
}
