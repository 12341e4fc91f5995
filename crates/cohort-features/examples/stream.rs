//! Plays a stream of users and offers with JSON features and item ids, as the service does, and says what came of
//! it: `stream FILE.jsonl [POLICY] [DIM] [effects|no-effects] [PARAMETER=VALUE …]`. `bench/json-features` makes the file.
//!
//! Lines `{"item": ID, "features": {…}}` come first, then one line a step:
//! `{"user": ID, "offer": [ID, …], "rewards": [number, …]}`. Printed is one line of JSON: how many steps, the mean
//! reward, steps a second.

use std::collections::HashMap;
use std::io::BufRead;
use std::time::Instant;

use cohort::{Contexts, Problem, Score};
use cohort_features::{Encoder, EncoderSettings, ItemEffects, ItemFeatures, Offer, Shown};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Item { item: String, features: serde_json::Value },
    Step { user: String, offer: Vec<String>, rewards: Vec<f64> },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let policy = arguments.next().unwrap_or_else(|| "cohort".to_owned());
    let dim: usize = arguments.next().map_or(Ok(32), |dim| dim.parse())?;
    let with_effects = arguments.next().is_none_or(|word| word != "no-effects");
    let mut params = Vec::new();
    for word in arguments {
        let (name, value) = word.split_once('=').ok_or("a parameter is NAME=VALUE")?;
        let number = value.parse::<f64>().map(Into::into);
        params.push((name.to_owned(), number.unwrap_or_else(|_| value.into())));
    }

    let (mut items, mut steps, mut users) = (Vec::new(), Vec::new(), HashMap::new());
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for line in std::io::BufReader::new(std::fs::File::open(path)?).lines() {
        match serde_json::from_str(&line?)? {
            Line::Item { item, features } => {
                let ItemFeatures(given) = serde_json::from_value(features)?;
                let cohort_features::Given::Json(features) = given else {
                    return Err("features are objects here".into());
                };
                numbers.insert(item.clone(), items.len());
                items.push((cohort_features::bytes::name_hash(&item), features));
            }
            Line::Step { user, offer, rewards } => {
                let next = users.len();
                let user = *users.entry(user).or_insert(next);
                let offer: Option<Vec<usize>> =
                    offer.iter().map(|id| numbers.get(id).copied()).collect();
                steps.push((user, offer.ok_or("an item without features")?, rewards));
            }
        }
    }

    let mut policy = cohort::registry::build(&policy, &Problem::new(0, dim), params)?;
    let mut encoder = Encoder::new(dim, EncoderSettings { seed: 1, ..EncoderSettings::default() });
    let mut effects = ItemEffects::default();
    let (mut rows, mut scores) = (Vec::new(), Vec::new());
    let (mut total, started) = (0.0, Instant::now());
    for (user, offer, rewards) in &steps {
        let of_items =
            Offer { items: offer.iter().map(|at| &items[*at].1).collect(), ..Offer::default() };
        encoder.encode_seen(&of_items, &mut rows)?;
        let contexts = Contexts::new(&rows, dim)?;
        policy.catch_up();
        let online = policy.online().ok_or("a policy for one user at a time")?;
        scores.clear();
        scores.resize(offer.len(), Score::default());
        online.score(*user, &contexts, &mut scores);
        let predicted: Vec<f64> = scores.iter().map(|score| score.expected).collect();
        if with_effects {
            let shown = offer.iter().zip(rows.chunks(dim));
            let shown = shown.map(|(at, vector)| Shown { item: items[*at].0, vector });
            let by_policy = &mut |rows: &Contexts, scores: &mut [Score]| {
                online.score(*user, rows, scores);
            };
            effects.adjust(*user, shown, &mut scores, by_policy);
        }
        let best = scores.iter().map(Score::total).fold(f64::NEG_INFINITY, f64::max);
        let arm = scores.iter().position(|score| score.total() >= best).unwrap_or(0);
        let mut is_news = true;
        if with_effects {
            let position = policy.insight().and_then(|insight| insight.position(*user));
            let cohort = position.and_then(|position| position.membership);
            let cohort = cohort.map(|membership| membership.component);
            let shown = Shown { item: items[offer[arm]].0, vector: contexts.arm(arm) };
            let online = policy.online().ok_or("a policy for one user at a time")?;
            let by_policy = &mut |rows: &Contexts, scores: &mut [Score]| {
                online.score(*user, rows, scores);
            };
            let (predicted, reward) = (predicted[arm], rewards[arm]);
            is_news = effects.learn(*user, cohort, shown, predicted, reward, by_policy);
        }
        if is_news {
            let online = policy.online().ok_or("a policy for one user at a time")?;
            online.learn_one(*user, contexts.arm(arm), rewards[arm]);
        }
        total += rewards[arm];
    }
    let seconds = started.elapsed().as_secs_f64();
    let (mean, rate) = (total / steps.len() as f64, steps.len() as f64 / seconds);
    println!(
        "{}",
        serde_json::json!({"steps": steps.len(), "mean": mean, "steps_per_second": rate.round()})
    );
    Ok(())
}
