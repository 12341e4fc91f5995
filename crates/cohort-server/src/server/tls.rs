//! The certificate: read before anybody is told that the service listens, and again on request.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::ServeError;
use crate::config::Config;

/// The certificate in use; all who hold it see the newest.
#[derive(Clone)]
pub(super) struct Certificate(Arc<RwLock<Arc<ServerConfig>>>);

impl Certificate {
    /// That of a configuration, if it has one.
    pub(super) fn open(config: &Config) -> Result<Option<Self>, ServeError> {
        let read = read(config)?;
        Ok(read.map(|read| Self(Arc::new(RwLock::new(Arc::new(read))))))
    }

    /// Reads the files anew. Connections from now on get the new certificate; where the files cannot
    /// be used the one before stays.
    pub(super) fn reload(&self, config: &Config) -> Result<(), ServeError> {
        if let Some(read) = read(config)? {
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
        }
        Ok(())
    }

    /// What shakes hands with a client.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }
}

fn read(config: &Config) -> Result<Option<ServerConfig>, ServeError> {
    if config.tls_cert.as_os_str().is_empty() {
        return Ok(None);
    }
    let unusable = |key, file: &Path, why: String, expected| ServeError::Tls {
        key,
        file: file.display().to_string(),
        why,
        expected,
    };
    let bad_cert =
        |why| unusable("tls_cert", &config.tls_cert, why, "the certificate chain as a PEM file");
    let bad_key = |why| {
        unusable("tls_key", &config.tls_key, why, "the certificate's private key as a PEM file")
    };
    // Another part of the process may have chosen a provider already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let chain = CertificateDer::pem_file_iter(&config.tls_cert).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|why| bad_cert(why.to_string()))?;
    if chain.is_empty() {
        return Err(bad_cert("there is no certificate in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&config.tls_key);
    let key = key.map_err(|why| bad_key(why.to_string()))?;
    let tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut tls = tls.map_err(|why| bad_key(why.to_string()))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(tls))
}
