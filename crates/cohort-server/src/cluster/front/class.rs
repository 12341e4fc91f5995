//! For which partitions is a request? By its route.

use axum::http::Method;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nowhere: this node answers.
    Own,
    /// This node answers, about the cluster.
    Health,
    /// The same: what the cluster is.
    Cluster,
    /// The same: which node is to give up what it owns.
    Drain,
    /// To the control partition.
    Control,
    /// To the partition of the user in its path.
    User,
    /// To the first partition, whose answer says that it is of its users alone.
    First,
    /// To the partition of the user in its body.
    Decide,
    /// To the partitions of the users in its body.
    DecideBatch,
    /// To the partition of the decision in its path.
    Decision,
    /// To the partition of the decision in its body.
    Activate,
    /// The same, or that of the user there.
    Reward,
    /// The same for several.
    Rewards,
    /// To the partition of the user in its body: several places.
    Slate,
    /// What came of them: to the partition of the slate.
    SlateRewards,
    /// The same in the Personalizer dialect.
    SlotEvents,
    /// To the partitions of the users in its body: decisions of the past.
    History,
    /// To all: which apps there are.
    Apps,
    /// To all: what an app is.
    App,
    /// To all: what is known.
    Insight,
    /// The same, second by second.
    Live,
    /// A rank of the Personalizer dialect.
    Rank,
    /// What came of one.
    Event,
    /// What the loop is.
    LoopControl,
    /// To nobody.
    Refused,
}

/// Where a request of a route goes. A route that is not known here is of one of the apps, and so goes by the user that
/// it names.
pub fn class_of(method: &Method, route: &str) -> Class {
    if let Some(at) = route.find("/personalizer") {
        return dialect(method, &route[at..]);
    }
    let Some(of_app) = route.strip_prefix("/v1/apps") else {
        return match route {
            "/healthz" | "/readyz" => Class::Health,
            "/v1/cluster" => Class::Cluster,
            "/v1/cluster/drain" => Class::Drain,
            _ => Class::Own,
        };
    };
    let reads = method == Method::GET;
    match of_app {
        "" if reads => Class::Apps,
        "" => Class::Control,
        "/{app}" if reads => Class::App,
        "/{app}" => Class::Control,
        "/{app}/decide" => Class::Decide,
        "/{app}/decide-batch" => Class::DecideBatch,
        "/{app}/activate" => Class::Activate,
        "/{app}/decisions/{decision}" => Class::Decision,
        "/{app}/reward" => Class::Reward,
        "/{app}/rewards" => Class::Rewards,
        "/{app}/slate" => Class::Slate,
        "/{app}/slate-rewards" => Class::SlateRewards,
        "/{app}/history" => Class::History,
        "/{app}/insight" => Class::Insight,
        "/{app}/live" => Class::Live,
        // This node reads the streams of all partitions itself.
        "/{app}/log.csv" | "/{app}/log.parquet" => Class::Own,
        "/{app}/features" | "/{app}/cohorts/{cohort}/features" => Class::First,
        route if route.starts_with("/{app}/users/") => Class::User,
        route if route.starts_with("/{app}/keys") || route.starts_with("/{app}/items") => {
            Class::Control
        }
        _ => Class::Refused,
    }
}

fn dialect(method: &Method, route: &str) -> Class {
    // The version, if there is one, is the second part.
    let mut parts = route.split('/').skip(2).skip_while(|part| part.starts_with("v1."));
    let operation: Vec<&str> = parts.by_ref().collect();
    match operation.as_slice() {
        ["rank"] | ["multislot", "rank"] => Class::Rank,
        ["events", ..] => Class::Event,
        ["multislot", "events", ..] => Class::SlotEvents,
        ["configurations", "applyFromEvaluation"] => Class::Refused,
        ["configurations", ..] => Class::LoopControl,
        ["model"] if method == Method::DELETE => Class::LoopControl,
        ["model", "properties"] => Class::LoopControl,
        _ => Class::Refused,
    }
}

/// The names in a path, by those of its route.
pub fn names(route: &str, path: &str) -> Vec<(String, String)> {
    let pairs = route.split('/').zip(path.split('/'));
    let named = pairs.filter_map(|(part, value)| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some((name.to_owned(), decoded(value)))
    });
    named.collect()
}

/// Text with `%41` as `A`.
fn decoded(text: &str) -> String {
    let mut bytes = text.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        let code = rest.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| byte == b'%') {
            Some(code) => {
                out.push(code);
                bytes = &rest[2..];
            }
            None => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_paths() {
        let found = names("/v1/apps/{app}/users/{user}", "/v1/apps/shop/users/a%20b%C3%A9%");
        let expected = [("app", "shop"), ("user", "a bé%")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    /// A route that somebody adds must be given a place here: what is refused in a cluster is listed.
    #[test]
    fn every_route_of_the_interface_has_a_class() {
        let api: serde_json::Value = serde_json::from_str(&crate::http::openapi()).unwrap();
        let mut refused = Vec::new();
        for (route, operations) in api["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
                if class_of(&method, route) == Class::Refused {
                    refused.push(format!("{method} {route}"));
                }
            }
        }
        // Of the Personalizer dialect docs/cluster.md says what is not done.
        assert!(refused.is_empty(), "these are done nowhere in a cluster: {refused:?}");
    }

    #[test]
    fn the_dialect_goes_where_its_versions_say() {
        let of = |route: &str| class_of(&Method::POST, route);
        for base in
            ["/personalizer", "/personalizer/v1.0", "/apps/{app}/personalizer/v1.1-preview.3"]
        {
            assert_eq!(of(&format!("{base}/rank")), Class::Rank);
            assert_eq!(of(&format!("{base}/events/{{event}}/reward")), Class::Event);
            assert_eq!(of(&format!("{base}/configurations/service")), Class::LoopControl);
            assert_eq!(of(&format!("{base}/evaluations")), Class::Refused);
        }
    }
}
