//! JSON becomes what it should: golden examples, a plain encoder beside the fast one, and all that is refused.

mod plain;

use cohort_features::{
    Encoder, EncoderSettings, Features, Given, ItemFeatures, Kind, Offer, Parts, Seen, Side,
};
use plain::Plain;
use proptest::prelude::*;
use serde_json::{Value, json};

fn item(json: &str) -> Features {
    Features::parse(Side::Item, json).unwrap()
}

fn refused(json: &str) -> String {
    match Features::parse(Side::Item, json) {
        Ok(found) => panic!("{:.80} was read as {:.80?}", json, found.atoms()),
        Err(why) => why.to_string(),
    }
}

#[test]
fn every_form_of_json_is_a_feature() {
    let features = item(
        r#"{"genre": "drama", "price": 3.5, "new": true, "old": false, "tags": ["b", "a", "b"], "sold": null,
            "embedding": [3, 4], "film": {"year": 1957, "of": {"city": "Rome"}}, "_id": {"any": ["thing", 1]}}"#,
    );
    let mut found: Vec<(&str, Kind, f64)> =
        features.atoms().iter().map(|atom| (features.name(atom), atom.kind, atom.value)).collect();
    found.sort_by_key(|(name, ..)| *name);
    let expected = [
        ("item.embedding", Kind::List, 5.0),
        ("item.film.of.city=Rome", Kind::Category, 1.0),
        ("item.film.year", Kind::Number, 1957.0),
        ("item.genre=drama", Kind::Category, 1.0),
        ("item.new", Kind::Flag, 1.0),
        ("item.old", Kind::Flag, -1.0),
        ("item.price", Kind::Number, 3.5),
        ("item.sold=null", Kind::Category, 1.0),
        ("item.tags=a", Kind::Category, 1.0),
        ("item.tags=b", Kind::Category, 1.0),
    ];
    assert_eq!(found, expected);
    // Several objects are one, as other services send them; a list of numbers is a vector.
    let both = item(r#"[{"genre": "drama"}, {"film": {"year": 1957}}]"#);
    assert_eq!(both.atoms().len(), 2);
    let vector: ItemFeatures = serde_json::from_str("[0.5, 1]").unwrap();
    assert_eq!(vector.0, Given::Vector(vec![0.5, 1.0]));
}

#[test]
fn what_cannot_be_used_is_refused_with_a_sentence() {
    let deep = format!("{}{}{}", r#"{"a":"#.repeat(9), 1, "}".repeat(9));
    assert!(refused(&deep).contains("8 deep"));
    assert!(refused(&format!("{}{}", "[".repeat(5000), "]".repeat(5000))).contains("object"));
    let ignored = format!(r#"{{"_a": {}{}}}"#, "[".repeat(5000), "]".repeat(5000));
    assert!(item(&ignored).is_empty(), "what is ignored may be anything");
    let many: Vec<String> = (0..1100).map(|i| format!(r#""n{i}": 1"#)).collect();
    assert!(refused(&format!("{{{}}}", many.join(","))).contains("1024 features"));
    assert!(refused(r#"{"a": 1, "a": 2}"#).contains("`a` is there twice"));
    assert!(refused(r#"{"a": {"b": "x", "c": 1, "b": "y"}}"#).contains("`b` is there twice"));
    assert!(refused(r#"{"_a": 1, "_a": 2}"#).contains("`_a` is there twice"));
    for word in ["NaN", "nan", "Infinity", "-inf"] {
        let said = refused(&format!(r#"{{"age": "{word}"}}"#));
        assert!(
            said.contains("item.age") && said.contains("null says that one is missing"),
            "{said}"
        );
    }
    assert!(refused(r#"{"age": NaN}"#).contains("expected value"));
    assert!(refused(r#"{"age": 1e31}"#).contains("1e30"));
    assert!(refused(r#"{"age": 1e999}"#).contains("out of range"));
    assert!(refused(r#"{"a": ["x", 1]}"#).contains("words only"));
    assert!(refused(r#"{"a": [[1]]}"#).contains("list of words only"));
    assert!(refused(&format!(r#"{{"{}": 1}}"#, "n".repeat(600))).contains("512 bytes"));
    assert!(refused(&format!(r#"{{"a": "{}"}}"#, "w".repeat(2000))).contains("1024"));
    assert!(refused("3").contains("an object"));
    assert!(refused(r#"[1, {"a": 1}]"#).contains("not of both"));
    assert!(Features::parse(Side::User, "[1, 2]").unwrap_err().to_string().contains("not a list"));
}

/// What a seed and some features become never changes: what was learned rests on it.
#[test]
fn vectors_are_those_of_the_first_release() {
    let settings = EncoderSettings { seed: 7, ..EncoderSettings::default() };
    let mut encoder = Encoder::new(8, settings);
    let films = [
        item(r#"{"g": "drama", "year": 1950, "e": [3, 4]}"#),
        item(r#"{"g": "war", "year": 1970}"#),
    ];
    let context = Features::parse(Side::Context, r#"{"mobile": true}"#).unwrap();
    let offer = Offer { items: films.iter().collect(), context: Some(&context), user: None };
    let mut rows = Vec::new();
    encoder.encode_seen(&offer, &mut rows).unwrap();
    let places: Vec<_> =
        encoder.names().map(|named| (&*named.name, named.place as i64, named.sign)).collect();
    let named = format!("{places:?}\n{rows:?}\n");
    assert_eq!(named, include_str!("golden.txt"), "{named}");
}

/// A namespace may have the name of a side, or be multiplied in several ways: an interaction is worked out once.
#[test]
fn interactions_are_worked_out_once() {
    let tea = item(r#"{"taste": "sour"}"#);
    let context = Features::parse(Side::Context, r#"{"user": {"age": "old", "city": "Rome"}}"#);
    let context = context.unwrap();
    let user = Features::parse(Side::User, r#"{"plan": "free"}"#).unwrap();
    let offer = Offer { items: vec![&tea], context: Some(&context), user: Some(&user) };
    let word = |names: &[(&str, &str)]| {
        names.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
    };
    let by_default = EncoderSettings::default().interactions;
    let more =
        word(&[("item", "context"), ("context", "item"), ("context", "user"), ("user", "user")]);
    for (interactions, count) in [(by_default, 3), (more, 2 + 3)] {
        let settings = EncoderSettings { interactions, ..EncoderSettings::default() };
        let (mut encoder, mut rows) = (Encoder::new(64, settings), Vec::new());
        encoder.encode_seen(&offer, &mut rows).unwrap();
        let crossed = encoder.names().filter(|named| named.crossed).count();
        assert_eq!(crossed, count, "{:?}", encoder.settings());
        let parts = encoder.explain(&offer, &tea, &[1.0; 64]);
        let crossed: Vec<&str> =
            parts.iter().map(|one| &*one.name).filter(|name| name.contains('^')).collect();
        assert_eq!(crossed.len(), count, "{crossed:?}");
        let sum: f64 = parts.iter().map(|one| one.part).sum();
        assert!((sum - rows.iter().sum::<f64>()).abs() < 1e-12);
    }
}

#[test]
fn a_list_keeps_its_geometry() {
    let mut encoder = Encoder::new(32, EncoderSettings::default());
    let lists =
        [item(r#"{"e": [3, 4, 0]}"#), item(r#"{"e": [0, 0, 5]}"#), item(r#"{"e": [6, 8, 0]}"#)];
    let (offer, mut rows) =
        (Offer { items: lists.iter().collect(), ..Offer::default() }, Vec::new());
    encoder.encode_seen(&offer, &mut rows).unwrap();
    let dot =
        |a: usize, b: usize| -> f64 { (1..32).map(|i| rows[a * 32 + i] * rows[b * 32 + i]).sum() };
    assert!(dot(0, 1).abs() < 1e-12, "at right angles");
    assert!((dot(2, 2) / dot(0, 0) - 4.0).abs() < 1e-9, "twice as long");
    let mean_square = (dot(0, 0) + dot(1, 1) + dot(2, 2)) / 3.0;
    assert!((mean_square - 0.25).abs() < 1e-9, "half as long as 1");
}

#[test]
fn a_prediction_is_the_sum_of_its_parts() {
    let mut encoder = Encoder::new(6, EncoderSettings::default());
    let films = [
        item(r#"{"g": ["a", "b"], "year": 1950, "e": [1, 2]}"#),
        item(r#"{"g": ["c"], "year": 3}"#),
    ];
    let context =
        Features::parse(Side::Context, r#"{"os": "ios", "hour": 3, "x": {"y": null}}"#).unwrap();
    let offer = Offer { items: films.iter().collect(), context: Some(&context), user: None };
    let mut rows = Vec::new();
    encoder.encode_seen(&offer, &mut rows).unwrap();
    let theta = [0.3, -1.0, 2.0, 0.7, -0.2, 0.9];
    for (film, row) in films.iter().zip(rows.chunks(6)) {
        let parts = encoder.explain(&offer, film, &theta);
        let sum: f64 = parts.iter().map(|part| part.part).sum();
        let whole: f64 = row.iter().zip(theta).map(|(x, t)| x * t).sum();
        assert!((sum - whole).abs() < 1e-12, "{sum} {whole}");
        assert!(parts.iter().any(|part| part.name == "item.year^context.os=ios"), "{parts:?}");
        assert!(parts.windows(2).all(|two| two[0].part.abs() >= two[1].part.abs()));
    }
}

#[test]
fn a_million_names_take_bounded_memory_and_too_many_interactions_are_refused() {
    let mut encoder = Encoder::new(64, EncoderSettings::default());
    let mut rows = Vec::new();
    for block in 0..1000 {
        let names: Vec<String> =
            (0..1000).map(|i| format!(r#""n{}": "w""#, block * 1000 + i)).collect();
        let one = item(&format!("{{{}}}", names.join(",")));
        encoder.encode_seen(&Offer { items: vec![&one], ..Offer::default() }, &mut rows).unwrap();
        assert!(rows.iter().all(|x| x.is_finite()));
    }
    assert!(encoder.names().count() <= 8192);
    // There is room for numbers yet.
    let priced = [item(r#"{"price": 1}"#), item(r#"{"price": 3}"#)];
    let offer = Offer { items: priced.iter().collect(), ..Offer::default() };
    encoder.encode_seen(&offer, &mut rows).unwrap();
    assert!(encoder.names().any(|named| &*named.name == "item.price" && named.moments.mean == 2.0));
    let wide: Vec<String> = (0..200).map(|i| format!(r#""n{i}": "w""#)).collect();
    let (wide, context) =
        (item(&format!("{{{}}}", wide.join(","))), format!("{{{}}}", wide.join(",")));
    let context = Features::parse(Side::Context, &context).unwrap();
    let offer = Offer { items: vec![&wide], context: Some(&context), user: None };
    assert!(encoder.look(&offer).unwrap_err().to_string().contains("40000 interactions"));
}

/// A name need not be of one kind: what was a list can be a number in the next request.
#[test]
fn a_name_may_be_a_list_once_and_something_else_another_time() {
    let forms = ["[1, 2]", "3", "true", "[0.5]", "\"word\"", "{\"a\": 1}", "null", "[1, 2]", "4"];
    for dim in [1, 2, 8] {
        for first in 0..forms.len() {
            let mut encoder = Encoder::new(dim, EncoderSettings::default());
            let context = Features::parse(Side::Context, r#"{"a": 1, "b": "x"}"#).unwrap();
            for form in forms[first..].iter().chain(&forms[..first]) {
                let both = [item(&format!(r#"{{"a": {form}}}"#)), item(r#"{"b": 1}"#)];
                let offer =
                    Offer { items: both.iter().collect(), context: Some(&context), user: None };
                let mut rows = Vec::new();
                encoder.encode_seen(&offer, &mut rows).unwrap();
                assert!(rows.len() == 2 * dim && rows.iter().all(|x| x.is_finite()));
                let theta: Vec<f64> = (0..dim).map(|at| 1.0 + at as f64).collect();
                let parts = encoder.explain(&offer, &both[0], &theta);
                let sum: f64 = parts.iter().map(|part| part.part).sum();
                let expected: f64 = rows[..dim].iter().zip(&theta).map(|(x, t)| x * t).sum();
                assert!((sum - expected).abs() < 1e-9, "{form}: {sum} {expected}");
            }
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-50i32..50).prop_map(|x| json!(f64::from(x) / 4.0)),
        "[a-d]{1,2}".prop_map(Value::from),
        prop::collection::vec("[a-d]{1,2}", 0..4).prop_map(|words| json!(words)),
    ]
}

fn object() -> impl Strategy<Value = Value> {
    let flat =
        || prop::collection::btree_map("[a-f_]{1,2}", value(), 0..6).prop_map(|map| json!(map));
    (flat(), prop::option::of(flat())).prop_map(|(mut outer, inner)| {
        if let Some(inner) = inner {
            outer["space"] = inner;
        }
        outer
    })
}

proptest! {
    /// The fast encoder is the plain one, through a stream of offers; kept and taken over in the middle of it,
    /// and told the same by another, it goes on the same, bit by bit.
    #[test]
    fn it_encodes_as_the_plain_one_does(
        dim in 2usize..40,
        seed in any::<u64>(),
        offers in prop::collection::vec((prop::collection::vec(object(), 1..4), object()), 1..8),
    ) {
        let settings = EncoderSettings {
            seed, interactions: vec![("item".to_owned(), "context".to_owned())], constant: true,
        };
        let mut encoder = Encoder::new(dim, settings.clone());
        let mut told = Encoder::new(dim, settings.clone());
        let mut at_once = Encoder::new(dim, settings.clone());
        let mut plain = Plain { dim, seed, places: Vec::new(), numbers: Default::default() };
        for (at, (items, context)) in offers.iter().enumerate() {
            let read: Vec<Features> = items.iter().map(|one| item(&one.to_string())).collect();
            let of_context = Features::parse(Side::Context, &context.to_string()).unwrap();
            let offer = Offer { items: read.iter().collect(), context: Some(&of_context), user: None };
            let (mut rows, mut again) = (Vec::new(), Vec::new());
            for step in 0..2 {
                let seen = if step == 0 { encoder.look(&offer).unwrap() } else { encoder.look_at_pairs(&offer) };
                encoder.learn(&seen);
                let mut bytes = Vec::new();
                seen.write(&mut bytes).unwrap();
                told.learn(&Seen::read(&mut bytes.as_slice()).unwrap());
                encoder.encode(&offer, &mut rows);
            }
            told.encode(&offer, &mut again);
            prop_assert_eq!(&rows, &again);
            at_once.encode_seen(&offer, &mut again).unwrap();
            prop_assert_eq!(&rows, &again);
            let expected = plain.encode(items, context);
            for (row, expected) in rows.chunks(dim).zip(&expected) {
                for (found, expected) in row.iter().zip(expected) {
                    prop_assert!((found - expected).abs() < 1e-9, "{:?} {:?}", row, expected);
                }
            }
            // Read and written they are the same.
            for one in &read {
                let mut bytes = Vec::new();
                one.write(&mut bytes).unwrap();
                prop_assert_eq!(&Features::read(&mut bytes.as_slice()).unwrap(), one);
            }
            if at == offers.len() / 2 {
                let mut bytes = Vec::new();
                told.save(&mut bytes).unwrap();
                told = Encoder::new(dim, settings.clone());
                told.load(&mut bytes.as_slice()).unwrap();
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in ".{0,60}") {
        let _ = Features::parse(Side::Item, &text);
        let _ = Features::parse(Side::Item, &format!("{{{text}}}"));
        let _ = Features::read(&mut text.as_bytes());
        let _ = Seen::read(&mut text.as_bytes());
    }
}

/// Many items in one context have the vectors that each has by itself, whatever kinds of features there are.
#[test]
fn items_around_a_context_have_the_same_vectors() {
    let settings = EncoderSettings { seed: 3, ..EncoderSettings::default() };
    let mut encoder = Encoder::new(40, settings);
    let read = |side, json: &str| Features::parse(side, json).unwrap();
    let items: Vec<Features> = (0..60)
        .map(|at| {
            let list: Vec<f64> = (0..at % 4).map(|index| f64::from(index * at) / 7.0).collect();
            let json = format!(
                r#"{{"kind": "k{}", "price": {}, "new": {}, "tags": ["a{}", "b"], "vector": {list:?},
                    "maker": {{"name": "m{}", "size": {at}}}}}"#,
                at % 5, at * 3, at % 2 == 0, at % 3, at % 11
            );
            read(Side::Item, &json)
        })
        .collect();
    let context = read(Side::Context, r#"{"page": "front", "hour": 13, "flags": ["x", "y"]}"#);
    let user = read(Side::User, r#"{"age": 41, "taste": [0.1, 0.2]}"#);
    let offer = |count: usize| Offer {
        items: items[..count].iter().collect(),
        context: Some(&context),
        user: Some(&user),
    };
    let mut rows = Vec::new();
    // Of some items everything is known, of others nothing.
    encoder.encode_seen(&offer(4), &mut rows).unwrap();
    encoder.encode_seen(&offer(4), &mut rows).unwrap();
    for round in 0..2 {
        let around_this = offer(0);
        let around = encoder.around(&around_this, 16).unwrap();
        let (mut parts, mut row) = (Parts::default(), vec![0.0; 40]);
        encoder.encode(&offer(60), &mut rows);
        for (at, item) in items.iter().enumerate() {
            around.row(item, &mut parts, &mut row);
            let alone = &rows[40 * at..][..40];
            let error = row.iter().zip(alone).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error < 1e-12, "{round}, {at}: {error}");
        }
        assert!(!parts.are_incomplete());
        let mut seen = Seen::default();
        parts.add_new(&encoder, &mut seen);
        let mut expected = encoder.look_at_pairs(&offer(60));
        let by_hash = |seen: &mut Seen| seen.names.sort_by_key(|name| name.hash);
        by_hash(&mut seen);
        by_hash(&mut expected);
        assert_eq!(seen, expected);
        assert_eq!(seen.is_empty(), round == 1);
        encoder.learn(&seen);
    }
    // What is multiplied by features of the same item is not done this way.
    let odd = read(Side::Item, r#"{"context": {"kind": "a"}}"#);
    let around_this = offer(0);
    let (mut parts, mut row) = (Parts::default(), vec![0.0; 40]);
    encoder.around(&around_this, 16).unwrap().row(&odd, &mut parts, &mut row);
    assert!(parts.are_incomplete());
    assert!(encoder.around(&around_this, 1000).is_none(), "too many interactions");
    let settings = EncoderSettings {
        interactions: vec![("item".into(), "item".into())],
        ..EncoderSettings::default()
    };
    assert!(Encoder::new(40, settings).around(&around_this, 16).is_none());
}
