//! Policies that draw: items are chosen as often as is stated, and as often as the policy draws them.
#![allow(missing_docs)]

mod common;

use cohort_server::engine::{Answer, Request};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::disk::MemoryFolder;
use common::{Simulation, create, decide, reward};

const DECISIONS: usize = 20_000;

fn made(answer: Answer) -> (String, String, f64) {
    let Answer::Decided(mut decisions) = answer else { panic!("a decision") };
    let made = decisions.pop().unwrap().unwrap();
    (made.id, made.ranking.first().to_owned(), made.probability)
}

/// With N decisions, Σ 1/P(item) over those that chose an item is N on average, for every item, if
/// the stated P is the probability with which it was chosen: what offline evaluation rests on.
/// Within 5 % here (a fixed seed; four standard errors are about 4 %).
#[test]
fn items_are_drawn_as_often_as_is_stated() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut service = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 1).unwrap();
    let mut settings = AppSettings { window_ms: 1000, ..AppSettings::new(3) };
    settings.params.insert("exploration_rule".to_owned(), "thompson".into());
    for epsilon in [0.0, 0.2] {
        let app = format!("app-{epsilon}");
        service.ask(0, create(&app, AppSettings { epsilon, ..settings.clone() })).unwrap();
        for round in 0..6 {
            let (id, item, _) = made(service.ask(0, decide(&app, "ann", None, 3, round)).unwrap());
            let liked = if item == "item-1" { 0.8 } else { 0.3 };
            service.ask(0, reward(&app, &id, liked + 0.1 * (round % 3) as f64)).unwrap();
        }
        let (mut chosen, mut weighed) = ([0.0; 4], [0.0; 4]);
        for at in 0..DECISIONS as u64 {
            let now_ms = 10 + at;
            let (_, item, probability) =
                made(service.ask(now_ms, decide(&app, "ann", None, 3, 5)).unwrap());
            assert!(probability > 0.0 && probability <= 1.0);
            let item: usize = item.trim_start_matches("item-").parse().unwrap();
            chosen[item] += 1.0;
            weighed[item] += 1.0 / probability;
        }
        let often: Vec<usize> =
            (0..4).filter(|item| chosen[*item] >= 0.1 * DECISIONS as f64).collect();
        assert!(often.len() >= 2, "it explores: {chosen:?}");
        for item in often {
            let ratio = weighed[item] / DECISIONS as f64;
            assert!((ratio - 1.0).abs() < 0.05, "item {item}: {ratio}, chosen {chosen:?}");
        }
        service.ask(1_000_000, Request::TimePasses).unwrap();
    }
}

/// `squarecb` has its probabilities in closed form: the same for an offer until the next reward, all of
/// them together 1, and with ε what they should be.
#[test]
fn probabilities_of_inverse_gap_weighting_are_exact() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut service = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 1).unwrap();
    let mut stated = Vec::new();
    for epsilon in [0.0, 0.2] {
        let app = format!("app-{epsilon}");
        let policy = "squarecb".to_owned();
        let settings = AppSettings { epsilon, policy, window_ms: 1000, ..AppSettings::new(3) };
        service.ask(0, create(&app, settings)).unwrap();
        // The same rewards in both apps, whatever was chosen before them.
        let mut taught = 0;
        for _ in 0..400 {
            let (id, item, _) = made(service.ask(0, decide(&app, "ann", None, 3, 5)).unwrap());
            if taught < 12 && item == format!("item-{}", taught % 4) {
                let liked = if item == "item-1" { 0.8 } else { 0.3 };
                service.ask(0, reward(&app, &id, liked)).unwrap();
                taught += 1;
            }
        }
        assert_eq!(taught, 12);
        let (mut chosen, mut chances) = ([0.0; 4], [0.0; 4]);
        for at in 0..4000 {
            let made = made(service.ask(2000 + at, decide(&app, "ann", None, 3, 5)).unwrap());
            let item: usize = made.1.trim_start_matches("item-").parse().unwrap();
            assert!(chosen[item] == 0.0 || chances[item] == made.2, "it is always the same");
            (chosen[item], chances[item]) = (chosen[item] + 1.0, made.2);
        }
        assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{chances:?}");
        for (chosen, chance) in chosen.iter().zip(&chances) {
            let error = (chance * (1.0 - chance) / 4000.0).sqrt();
            assert!(
                (chosen / 4000.0 - chance).abs() < 4.0 * error,
                "{chosen} of 4000 for {chance}"
            );
        }
        stated.push(chances);
        service.ask(1_000_000, Request::TimePasses).unwrap();
    }
    for (alone, with_epsilon) in stated[0].iter().zip(&stated[1]) {
        assert!((with_epsilon - (0.2 / 4.0 + 0.8 * alone)).abs() < 1e-12);
    }
}
