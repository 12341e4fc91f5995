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

/// What a key opens, of its own app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// To ask what to show users.
    pub const DECIDE: u8 = 1;
    /// To tell how they answered.
    pub const REWARD: u8 = 2;
    /// To read what was learned of users, decisions, and the whole log.
    pub const READ: u8 = 4;
    /// To change the catalogue.
    pub const ITEMS: u8 = 8;
    /// All of this, and to change settings, keys and users.
    pub const ADMIN: u8 = 16;

    /// What a key opens of which nothing else is said.
    pub const USUAL: Self = Self(Self::DECIDE | Self::REWARD);
    /// What every key opened before there were scopes.
    pub const OF_OLD: Self = Self(Self::DECIDE | Self::REWARD | Self::READ | Self::ITEMS);

    pub(crate) const NAMES: [(&'static str, u8); 5] = [
        ("decide", Self::DECIDE),
        ("reward", Self::REWARD),
        ("read", Self::READ),
        ("items", Self::ITEMS),
        ("admin", Self::ADMIN),
    ];

    /// From their names.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut bits = 0;
        for name in names {
            let Some((_, bit)) = Self::NAMES.iter().find(|(known, _)| *known == name) else {
                let known = Self::NAMES.map(|(known, _)| known).join(", ");
                return Err(format!("there is no scope `{name}`; scopes are {known}"));
            };
            bits |= bit;
        }
        match bits {
            0 => Err("a key needs one scope or more".to_owned()),
            bits => Ok(Self(bits)),
        }
    }

    /// As it is kept.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// From what was kept.
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits != 0 && bits < 2 * Self::ADMIN).then_some(Self(bits))
    }

    /// Their names.
    pub fn names(self) -> Vec<&'static str> {
        let ours = Self::NAMES.iter().filter(|(_, bit)| self.0 & bit != 0);
        ours.map(|(name, _)| *name).collect()
    }

    /// Whether a scope is one of them; 0 is one of all.
    pub fn allow(self, scope: u8) -> bool {
        scope == 0 || self.0 & (scope | Self::ADMIN) != 0
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

    #[test]
    fn scopes_have_names_and_admins_have_all() {
        let read = Scopes::from_names(["read"]).unwrap();
        assert!(read.allow(Scopes::READ) && !read.allow(Scopes::DECIDE) && read.allow(0));
        let admin = Scopes::from_names(["admin"]).unwrap();
        assert!(admin.allow(Scopes::READ) && admin.allow(Scopes::ITEMS));
        assert!(!Scopes::USUAL.allow(Scopes::READ) && !Scopes::OF_OLD.allow(Scopes::ADMIN));
        assert!(Scopes::from_names(["wrong"]).unwrap_err().contains("decide, reward, read"));
        assert!(Scopes::from_names([]).is_err());
        for bits in 0..=255 {
            let kept = Scopes::from_bits(bits);
            assert_eq!(kept.is_some(), (1..32).contains(&bits));
            if let Some(kept) = kept {
                assert_eq!(Scopes::from_names(kept.names()).unwrap(), kept);
            }
        }
    }
}
