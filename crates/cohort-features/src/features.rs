//! Which features does an object have? A flat list, read once, that belongs to no app.

use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

/// Whose features they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Of an item.
    Item,
    /// Of the situation: page, device, time.
    Context,
    /// Of the user.
    User,
}

impl Side {
    /// As it is written in names and in interactions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Context => "context",
            Self::User => "user",
        }
    }

    /// The hash of its name.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        static HASHES: LazyLock<[u64; 3]> = LazyLock::new(|| {
            [Side::Item, Side::Context, Side::User].map(|side| hash_of(side.name()))
        });
        HASHES[self as usize]
    }
}

/// What kind of feature it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// There or not: a word, a member of a set, null.
    Category,
    /// Yes or no: 1 or −1.
    Flag,
    /// A magnitude, standardised.
    Number,
    /// A list of numbers, scaled as a whole.
    List,
}

impl Kind {
    /// All kinds in the order of their numbers, which never changes.
    pub const ALL: [Self; 4] = [Self::Category, Self::Flag, Self::Number, Self::List];

    /// As it is kept.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Flag => "flag",
            Self::Number => "number",
            Self::List => "list",
        }
    }
}

/// One feature of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Atom {
    /// Of its name: what tells it from others.
    pub hash: u64,
    /// Of its namespace.
    pub space: u64,
    /// Its kind.
    pub kind: Kind,
    /// 1 of a category, ±1 of a flag, the number of a number, the norm of a list.
    pub value: f64,
    pub(crate) name: (u32, u32),
    pub(crate) list: (u32, u32),
}

/// The features of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    pub(crate) names: String,
    pub(crate) atoms: Vec<Atom>,
    pub(crate) numbers: Vec<f32>,
}

/// The hash of a name.
#[inline]
pub fn hash_of(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// The hash of a number of a list.
pub(crate) fn member(list: u64, index: usize) -> u64 {
    mix(list ^ (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The hash of an interaction.
#[inline]
pub(crate) fn crossed(one: u64, other: u64) -> u64 {
    mix(one.rotate_left(23) ^ mix(other))
}

/// A bijection of 64 bits in which every bit depends on every other (the end of MurmurHash3).
#[inline]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    bits ^ (bits >> 33)
}

impl Features {
    /// All of them.
    #[inline]
    pub fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    /// How many there are; the numbers of a list count one by one.
    pub fn len(&self) -> usize {
        let lists = self.atoms.iter().filter(|atom| atom.kind == Kind::List).count();
        self.atoms.len() - lists + self.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    /// What a feature is called: `item.genre=drama`, `item.price`, `context.device.os=ios`.
    pub fn name(&self, atom: &Atom) -> &str {
        &self.names[atom.name.0 as usize..][..atom.name.1 as usize]
    }

    /// The numbers of a list.
    pub fn list(&self, atom: &Atom) -> &[f32] {
        &self.numbers[atom.list.0 as usize..][..atom.list.1 as usize]
    }

    /// The feature of that name.
    pub fn find(&self, name: &str) -> Option<&Atom> {
        let hash = hash_of(name);
        self.atoms.iter().find(|atom| atom.hash == hash && self.name(atom) == name)
    }

    /// Roughly how many bytes it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.names.len()
            + size_of_val(&self.atoms[..])
            + size_of_val(&self.numbers[..])
    }

    /// These and others.
    pub fn joined(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        for atom in &other.atoms {
            joined.push(other.name(atom), atom.space, atom.kind, atom.value, other.list(atom));
        }
        joined
    }

    /// Adds one.
    pub(crate) fn push(&mut self, name: &str, space: u64, kind: Kind, value: f64, list: &[f32]) {
        self.push_hashed((name, hash_of(name)), space, kind, value, list);
    }

    /// Adds one, the hash of whose name is known.
    #[inline]
    pub(crate) fn push_hashed(
        &mut self,
        (name, hash): (&str, u64),
        space: u64,
        kind: Kind,
        value: f64,
        list: &[f32],
    ) {
        let at = (self.names.len() as u32, name.len() as u32);
        let of_list = (self.numbers.len() as u32, list.len() as u32);
        self.names.push_str(name);
        self.numbers.extend_from_slice(list);
        self.atoms.push(Atom { hash, space, kind, value, name: at, list: of_list });
    }

    /// Adds a word of a name, unless it is there already among the features from `first` on.
    #[inline]
    pub(crate) fn push_word(&mut self, name: &str, word: &str, space: u64, first: usize) {
        let start = self.names.len();
        self.names.push_str(name);
        self.names.push('=');
        self.names.push_str(word);
        let hash = hash_of(&self.names[start..]);
        if self.atoms[first..].iter().any(|known| known.hash == hash) {
            return self.names.truncate(start);
        }
        let at = (start as u32, (self.names.len() - start) as u32);
        let (kind, value, list) = (Kind::Category, 1.0, (self.numbers.len() as u32, 0));
        self.atoms.push(Atom { hash, space, kind, value, name: at, list });
    }
}
