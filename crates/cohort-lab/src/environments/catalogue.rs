//! `lastfm` and `movielens`: real users and a catalogue of items that each likes or does not.
//!
//! In every round some items are on offer, drawn at random. The reward is 1 if the user likes the
//! item, else 0; regret is against the best item on offer, so it is 0 for a user who likes none of
//! them. Offers are either the same for all users (`shared`), or each user has its own, with one
//! item that it likes among the others (`liked`), as the paper has it for CLUB.
//!
//! Reference: the paper, Section 7.2 and Appendix A.2.

use std::path::Path;
use std::sync::Arc;

use cohort::params::{POSITIVE, Param, Settings};
use cohort::{Arm, Contexts, Truth};
use rand::RngExt;

use crate::Error;
use crate::datasets::{self, Centring, Choices, Dataset, RawDataset, Rows, Untagged};
use crate::environment::{Environment, EnvironmentInfo, Feedback, Size, World};
use crate::seed::{Purpose, Seed};

/// Static metadata of `lastfm`.
pub(super) const LASTFM: EnvironmentInfo = EnvironmentInfo {
    name: "lastfm",
    summary: "who listened to whom (HetRec 2011 Last.FM, the paper's real data)",
    params: &[OFFER_OPTIONS, OPTIONS],
    build: |settings| {
        let (locate, read) = (datasets::lastfm::locate, datasets::lastfm::read);
        build(settings, "Last.FM", locate, read, datasets::lastfm::HOW_TO_GET)
    },
};

/// Static metadata of `movielens`.
pub(super) const MOVIELENS: EnvironmentInfo = EnvironmentInfo {
    name: "movielens",
    summary: "who liked which film (MovieLens ml-latest-small)",
    params: &[OFFER_OPTIONS, OPTIONS],
    build: |settings| {
        let (locate, read) = (datasets::movielens::locate, datasets::movielens::read);
        build(settings, "MovieLens", locate, read, datasets::movielens::HOW_TO_GET)
    },
};

/// The most arms: liked arms are the bits of one word.
const MOST_ARMS: usize = 64;

/// Static metadata of `yelp`.
pub(super) const YELP: EnvironmentInfo = EnvironmentInfo {
    name: "yelp",
    summary: "who liked which item of Yelp, with the vectors of LOCB's authors",
    params: &[OFFER_OPTIONS],
    build: |settings| {
        let folder =
            find_folder(settings, "Yelp", datasets::locb::locate, datasets::locb::HOW_TO_GET)?;
        shop(settings, datasets::locb::read(&folder)?)
    },
};

const OPTIONS: &[Param] = &[
    Param::count("dim", 1, 25, "d, how many principal components"),
    Param::choice("untagged", &["keep", "drop"], "what becomes of items of which no word was said"),
    Param::choice(
        "centring",
        &["centred", "raw"],
        "whether components are those of the centred matrix",
    ),
    Param::choice(
        "rows",
        &["unit", "as-is"],
        "every item of length 1, or all divided by the longest",
    ),
];

/// The options of all catalogues.
const OFFER_OPTIONS: &[Param] = &[
    Param::text("data", "a folder", "COHORT_DATA, or data/", "folder of all data sets"),
    Param::count("arms", 1, 25, "K, how many items are on offer"),
    Param::choice(
        "offer",
        &["shared", "liked"],
        "the same random items for all, or random ones and one liked for each",
    ),
    Param::real(
        "sigma",
        POSITIVE,
        0.5,
        "the noise scale that policies are told; rewards of 0 and 1 are 1/2-sub-Gaussian",
    ),
];

struct Shop {
    catalogue: Arc<Dataset>,
    /// For every item, the users who like it.
    fans: Arc<Vec<Vec<u32>>>,
    arms: usize,
    own_offers: bool,
    sigma: f64,
}

fn build(
    settings: &Settings,
    name: &str,
    locate: fn(&Path) -> Option<std::path::PathBuf>,
    read: fn(&Path) -> Result<RawDataset, Error>,
    how_to_get: &str,
) -> Result<Box<dyn Environment>, Error> {
    let folder = find_folder(settings, name, locate, how_to_get)?;
    let choices = Choices {
        dim: settings.count("dim"),
        untagged: match settings.choice("untagged") {
            "drop" => Untagged::Drop,
            _ => Untagged::Keep,
        },
        centring: match settings.choice("centring") {
            "raw" => Centring::Raw,
            _ => Centring::Centred,
        },
        rows: match settings.choice("rows") {
            "as-is" => Rows::AsIs,
            _ => Rows::Unit,
        },
    };
    shop(settings, read(&folder)?.catalogue(choices).map_err(|error| error.at(&folder))?)
}

/// The folder of a data set; the error says how to get it.
fn find_folder(
    settings: &Settings,
    name: &str,
    locate: fn(&Path) -> Option<std::path::PathBuf>,
    how_to_get: &str,
) -> Result<std::path::PathBuf, Error> {
    let data = datasets::folder(settings.text("data").map(Path::new));
    locate(&data).ok_or_else(|| {
        Error::unexpected(
            format!("data {}", data.display()),
            format!("no {name} files"),
            how_to_get,
        )
    })
}

fn shop(settings: &Settings, catalogue: Dataset) -> Result<Box<dyn Environment>, Error> {
    let arms = settings.count("arms");
    let most = MOST_ARMS.min(catalogue.len());
    if arms > most {
        return Err(Error::unexpected("arms", arms.to_string(), format!("at most {most}")));
    }
    let mut fans = vec![Vec::new(); catalogue.len()];
    for (user, items) in catalogue.liked.iter().enumerate() {
        items.iter().for_each(|item| fans[*item as usize].push(user as u32));
    }
    Ok(Box::new(Shop {
        catalogue: Arc::new(catalogue),
        fans: Arc::new(fans),
        arms,
        own_offers: settings.choice("offer") == "liked",
        sigma: settings.real("sigma"),
    }))
}

impl Environment for Shop {
    fn size(&self) -> Size {
        let Dataset { dim, liked, .. } = self.catalogue.as_ref();
        Size { users: liked.len(), dim: *dim, arms: self.arms, rounds: None }
    }

    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error> {
        let users = self.catalogue.liked.len();
        Ok(Box::new(CatalogueWorld {
            catalogue: self.catalogue.clone(),
            fans: self.fans.clone(),
            arms: self.arms,
            own_offers: self.own_offers,
            sigma: self.sigma,
            seed,
            contexts: Vec::new(),
            liked: vec![0; users],
        }))
    }
}

/// The world of one repetition.
struct CatalogueWorld {
    catalogue: Arc<Dataset>,
    fans: Arc<Vec<Vec<u32>>>,
    arms: usize,
    own_offers: bool,
    sigma: f64,
    seed: Seed,
    /// The contexts: one offer for all users, or one per user.
    contexts: Vec<f64>,
    /// For every user, which arms of this round it likes, a bit for each.
    liked: Vec<u64>,
}

impl CatalogueWorld {
    fn offer_to_all(&mut self, round: usize) {
        let mut rng = self.seed.stream(Purpose::Contexts, round);
        let items = draw(self.arms, self.catalogue.len(), None, &mut rng);
        self.liked.fill(0);
        for (arm, item) in items.into_iter().enumerate() {
            self.contexts.extend(self.catalogue.item(item));
            for user in &self.fans[item as usize] {
                self.liked[*user as usize] |= 1 << arm;
            }
        }
    }

    fn offer_to_each(&mut self, round: usize) {
        let mut rng = self.seed.stream(Purpose::Contexts, round);
        for (user, own) in self.catalogue.liked.iter().enumerate() {
            let wanted = own[rng.random_range(0..own.len())];
            let items = draw(self.arms, self.catalogue.len(), Some(wanted), &mut rng);
            self.liked[user] = 0;
            for (arm, item) in items.into_iter().enumerate() {
                self.contexts.extend(self.catalogue.item(item));
                self.liked[user] |= u64::from(self.catalogue.likes(user, item)) << arm;
            }
        }
    }
}

/// Different random items, one of them given (at a random position) or none.
fn draw(count: usize, items: usize, given: Option<u32>, rng: &mut impl rand::Rng) -> Vec<u32> {
    let mut drawn: Vec<u32> = given.into_iter().collect();
    while drawn.len() < count {
        let item = rng.random_range(0..items as u32);
        if !drawn.contains(&item) {
            drawn.push(item);
        }
    }
    if given.is_some() {
        drawn.swap(0, rng.random_range(0..count));
    }
    drawn
}

impl World for CatalogueWorld {
    fn sigma(&self) -> f64 {
        self.sigma
    }

    fn truth(&self) -> Option<Truth<'_>> {
        None
    }

    fn graph(&self) -> Option<&[(usize, usize)]> {
        let friends = &self.catalogue.friends;
        (!friends.is_empty()).then_some(friends)
    }

    fn start_round(&mut self, round: usize) {
        self.contexts.clear();
        if self.own_offers { self.offer_to_each(round) } else { self.offer_to_all(round) }
    }

    fn contexts(&self) -> Contexts<'_> {
        self.contexts_for(0)
    }

    fn contexts_for(&self, user: usize) -> Contexts<'_> {
        let size = self.arms * self.catalogue.dim;
        let first = if self.own_offers { user * size } else { 0 };
        Contexts::new(&self.contexts[first..first + size], self.catalogue.dim)
            .expect("components of a finite matrix are finite")
    }

    fn own_offers(&self) -> bool {
        self.own_offers
    }

    fn play(&self, user: usize, arm: Arm) -> Feedback {
        let liked = self.liked[user];
        let reward = f64::from(u8::from(liked >> arm & 1 == 1));
        let best = f64::from(u8::from(liked != 0));
        Feedback { reward, regret: best - reward }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datasets::lastfm;
    use crate::datasets::synthetic::write_lastfm;
    use cohort::params::Value;

    fn world(offer: &str) -> (Box<dyn World>, Dataset) {
        let data = tempfile::tempdir().unwrap();
        write_lastfm(data.path(), 30, 60, 3).unwrap();
        let settings = [("data", data.path().to_str().unwrap()), ("offer", offer)];
        let options = settings.map(|(name, value)| (name.to_owned(), Value::Text(value.into())));
        let options = options.into_iter().chain([("dim".to_owned(), Value::Real(5.0))]);
        let environment = (LASTFM.build)(&LASTFM.check(options).unwrap()).unwrap();
        let tables = lastfm::read(&data.path().join(lastfm::FOLDER)).unwrap();
        let catalogue = tables.catalogue(Choices { dim: 5, ..Choices::default() }).unwrap();
        (environment.world(Seed { seed: 1, repetition: 0 }).unwrap(), catalogue)
    }

    /// Finds an item by its vector.
    fn item_of(catalogue: &Dataset, vector: &[f64]) -> Vec<u32> {
        (0..catalogue.len() as u32).filter(|item| catalogue.item(*item) == vector).collect()
    }

    #[test]
    fn rewards_are_who_listened_to_whom() {
        for offer in ["shared", "liked"] {
            let (mut world, catalogue) = world(offer);
            for round in [4, 0] {
                world.start_round(round);
                for user in 0..catalogue.liked.len() {
                    let contexts = world.contexts_for(user);
                    let rewards: Vec<f64> =
                        (0..25).map(|arm| world.play(user, arm).reward).collect();
                    for (arm, vector) in contexts.iter().enumerate() {
                        let items = item_of(&catalogue, vector);
                        let possible: Vec<bool> =
                            items.iter().map(|item| catalogue.likes(user, *item)).collect();
                        assert!(possible.contains(&(rewards[arm] == 1.0)));
                        let best = rewards.iter().copied().fold(0.0, f64::max);
                        assert_eq!(world.play(user, arm).regret, best - rewards[arm]);
                    }
                    assert!(offer == "shared" || rewards.contains(&1.0), "nothing liked");
                }
            }
        }
    }

    #[test]
    fn without_files_it_says_how_to_get_them() {
        let empty = tempfile::tempdir().unwrap();
        let folder = Value::Text(empty.path().to_str().unwrap().into());
        let settings = LASTFM.check([("data".to_owned(), folder)]).unwrap();
        let error = (LASTFM.build)(&settings).err().unwrap().to_string();
        assert!(error.contains("no Last.FM files") && error.contains("grouplens.org"), "{error}");
        assert!(!error.contains('\n'));
    }
}
