//! A node on servers that speak TLS, know nodes by their certificates, and let in whoever has credentials.
#![allow(missing_docs)]

mod nats;
mod nodes;

use std::path::Path;

use cohort_server::cluster::nats::{Nats, NatsOptions};
use cohort_server::cluster::server::ClusterServer;
use cohort_server::config::Config;
use nats::Servers;
use nkeys::KeyPair;
use nodes::{Node, config};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair as CertificateKey,
};
use serde_json::{Value, json};

fn write(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// An authority of our own, and what it certifies.
fn authority() -> CertifiedIssuer<'static, CertificateKey> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, CertificateKey::generate().unwrap()).unwrap()
}

/// Files of a certificate for this machine, and of its key.
fn certify(
    folder: &Path,
    name: &str,
    by: &CertifiedIssuer<'static, CertificateKey>,
) -> (String, String) {
    let key = CertificateKey::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, by).unwrap();
    let file = write(folder, &format!("{name}.pem"), &certificate.pem());
    (file, write(folder, &format!("{name}.key"), &key.serialize_pem()))
}

/// Base64 of addresses, as JSON web tokens have it.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let of_three = |three: &[u8]| {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        (0..=three.len())
            .map(|at| char::from(LETTERS[(bits >> (18 - 6 * at)) as usize & 63]))
            .collect::<String>()
    };
    bytes.chunks(3).map(of_three).collect()
}

/// What a key says of another one.
fn token(by: &KeyPair, of: &KeyPair, claims: Value) -> String {
    let body = json!({
        "jti": "test", "iat": 1_700_000_000, "iss": by.public_key(), "sub": of.public_key(), "name": "test", "nats": claims
    });
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let said =
        format!("{}.{}", base64(head.to_string().as_bytes()), base64(body.to_string().as_bytes()));
    let signed = by.sign(said.as_bytes()).unwrap();
    format!("{said}.{}", base64(&signed))
}

#[test]
fn a_node_is_known_by_its_certificate_and_no_other_is_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (authority(), authority());
    let ca = write(folder.path(), "ca.pem", &ours.pem());
    let (cert, key) = certify(folder.path(), "server", &ours);
    let (client_cert, client_key) = certify(folder.path(), "client", &ours);
    let (other_cert, other_key) = certify(folder.path(), "other", &theirs);
    let more = format!(
        "tls {{ cert_file: {cert:?}, key_file: {key:?}, ca_file: {ca:?}, verify: true }}\n"
    );
    let options = NatsOptions {
        tls_ca: ca.clone(),
        tls_cert: client_cert.clone(),
        tls_key: client_key.clone(),
        ..NatsOptions::default()
    };
    let servers = Servers::start_more(1, true, more, options);
    let secure = |cert: &str, key: &str| Config {
        nats_tls_ca: ca.clone().into(),
        nats_tls_cert: cert.into(),
        nats_tls_key: key.into(),
        ..config(&servers, "a", 2)
    };
    let node = Node::start(secure(&client_cert, &client_key));
    node.wait_until_even(1);
    works(&node);
    // A certificate of somebody else, none, a key of another certificate, and a file that is not there.
    let refused = |config: Config| ClusterServer::open(config).err().expect("refused").to_string();
    let said = refused(secure(&other_cert, &other_key));
    assert!(said.contains("NATS"), "{said}");
    refused(secure("", ""));
    refused(secure(&client_cert, &key));
    let said = refused(secure(&client_cert, ""));
    assert!(said.contains("nats_tls_cert and nats_tls_key belong together"), "{said}");
    let said = refused(secure("missing.pem", &client_key));
    assert!(said.contains("missing.pem") || said.contains("No such file"), "{said}");
}

#[test]
fn a_node_with_credentials_is_let_in_and_none_without() {
    let folder = tempfile::tempdir().unwrap();
    let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
    let (system, user) = (KeyPair::new_account(), KeyPair::new_user());
    let limits = |store: i32| {
        json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
            "mem_storage": store, "disk_storage": store, "streams": store, "consumer": store
        })
    };
    let of_account = json!({"limits": limits(-1), "type": "account", "version": 2});
    let of_user = json!({"subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}, "type": "user", "version": 2});
    let stands_for =
        json!({"type": "operator", "version": 2, "system_account": system.public_key()});
    let more = format!(
        "operator: {:?}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {:?}, {}: {:?} }}\n",
        token(&operator, &operator, stands_for),
        system.public_key(),
        account.public_key(),
        token(&operator, &account, of_account),
        system.public_key(),
        token(&operator, &system, json!({"limits": limits(0), "type": "account", "version": 2})),
    );
    let credentials = |user: &KeyPair, by: &KeyPair| {
        let begins = |what: &str| format!("-----BEGIN {what}-----\n");
        let (token, seed) = (token(by, user, of_user.clone()), user.seed().unwrap());
        format!(
            "{}{token}\n------END NATS USER JWT------\n\n{}{seed}\n------END USER NKEY SEED------\n",
            begins("NATS USER JWT"),
            begins("USER NKEY SEED")
        )
    };
    let file = write(folder.path(), "node.creds", &credentials(&user, &account));
    let stranger = credentials(&KeyPair::new_user(), &KeyPair::new_account());
    let stranger = write(folder.path(), "stranger.creds", &stranger);
    let options = NatsOptions { credentials: file.clone(), ..NatsOptions::default() };
    let servers = Servers::start_more(1, true, more, options);
    let with = |file: &str| Config { nats_credentials: file.into(), ..config(&servers, "a", 2) };
    let node = Node::start(with(&file));
    node.wait_until_even(1);
    works(&node);
    for file in ["", stranger.as_str()] {
        let said = ClusterServer::open(with(file)).err().expect("refused").to_string();
        assert!(said.contains("NATS"), "{said}");
    }
    let missing = Nats::connect(&with("missing.creds").nats_options(), "b").err().unwrap();
    assert!(missing.to_string().contains("missing.creds"), "{missing}");
}

/// It decides and learns.
fn works(node: &Node) {
    node.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    let items = json!([{"id": "a", "features": [1, 0]}, {"id": "b", "features": [0, 1]}]);
    for n in 0..6 {
        let made =
            node.post("/v1/apps/shop/decide", &json!({"user": format!("u{n}"), "items": items}));
        let reward = json!({"decision_id": made["decision_id"], "reward": 1});
        node.post("/v1/apps/shop/reward", &reward);
    }
}
