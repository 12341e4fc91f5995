//! Who may ask: keys, of which only hashes are kept, compared in constant time.
//!
//! A key is 256 random bits, so that one round of SHA-256 is all its hash needs: there is no
//! password to guess. Keys that people choose themselves (the admin key may be one) must be long.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The shortest admin key that is accepted.
pub const MIN_ADMIN_KEY_CHARS: usize = 16;

/// What is kept of a key.
#[derive(Clone, Copy, PartialEq)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Of a key as the client sends it.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// As it is kept.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// As it is kept.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether both are of the same key, in a time that does not tell where they differ.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// Never shown, not even hashed: logs are read by many.
impl std::fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "KeyHash(…)")
    }
}

/// A new key made from 32 random bytes: what the client is shown once.
pub fn new_key(random: [u8; 32]) -> String {
    format!("ck_{}", hex(&random))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_hash_and_by_nothing_else() {
        let key = new_key([7; 32]);
        let kept = KeyHash::of(&key);
        assert!(kept.matches(&KeyHash::of(&key)));
        assert!(!kept.matches(&KeyHash::of(&new_key([8; 32]))));
        assert_eq!(format!("{kept:?}"), "KeyHash(…)");
        assert_eq!(hex(&[0, 0xaf]), "00af");
    }
}
