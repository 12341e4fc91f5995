//! How is the loop set? The service configuration, and learning settings.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::DialectError;
use super::time::{date, duration, parse_duration};
use super::{DEFAULT_DIM, Loop, Sent, bug, check_id};
use crate::auth::Scopes;
use crate::clock::{Clock, SystemClock};
use crate::engine::request::AppView;
use crate::engine::{Answer, Request};
use crate::http::Service;
use crate::http::apps::{FeatureForm, encoder_settings};
use crate::learning::{Aggregation, Learning, Mode};
use crate::settings::{AppSettings, MAX_WINDOW_MS};
use crate::trial::Trial;

const BAD: &str = "InvalidServiceConfiguration";

/// The share of decisions that are drawn, as the real service begins.
const DEFAULT_EXPLORATION: f64 = 0.2;
/// Days of the log that the real service trains a model with again.
const DEFAULT_RETRAIN_DAYS: i64 = 2;
const DEFAULT_ARGUMENTS: &str =
    "--cb_explore_adf --epsilon 0.2 --power_t 0 -l 0.001 --cb_type mtr -q ::";

/// A configuration as it is sent. What is not known is passed over, as the real service does.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    reward_wait_time: String,
    default_reward: f64,
    reward_aggregation: String,
    exploration_percentage: f64,
    model_export_frequency: Option<String>,
    log_retention_days: Option<i64>,
    model_retrain_days: Option<i64>,
    learning_mode: Option<String>,
    is_auto_optimization_enabled: Option<bool>,
    auto_optimization_frequency: Option<String>,
    auto_optimization_start_date: Option<String>,
    is_inference_explainability_enabled: Option<bool>,
}

/// What is kept of a configuration that the service itself has no use for, and of learning settings.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Kept {
    model_export_frequency: Option<String>,
    log_retention_days: Option<i64>,
    model_retrain_days: Option<i64>,
    is_auto_optimization_enabled: Option<bool>,
    auto_optimization_frequency: Option<String>,
    auto_optimization_start_date: Option<String>,
    is_inference_explainability_enabled: Option<bool>,
    edited_ms: Option<u64>,
    policy: Option<Policy>,
    /// Evaluations that were asked for, with what came of them.
    pub(super) evaluations: Vec<Value>,
}

/// Learning settings.
#[derive(Clone, Deserialize, Serialize)]
pub struct Policy {
    name: String,
    arguments: String,
}

impl Kept {
    pub(super) fn of(learning: &Learning) -> Self {
        serde_json::from_str(&learning.dialect).unwrap_or_default()
    }

    /// How many days of the log a model would be trained with again; the default where none were named.
    fn retrain_days(&self) -> i64 {
        self.model_retrain_days.filter(|days| *days >= 0).unwrap_or(DEFAULT_RETRAIN_DAYS)
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The app that is made for a client that expects a loop to be there, as the real service begins.
pub(super) fn new_loop(app: &str) -> Result<Request, DialectError> {
    let features = encoder_settings(FeatureForm::Json, None)
        .map_err(|why| DialectError::from_api(why, "InternalServerError"))?;
    let settings = AppSettings {
        epsilon: DEFAULT_EXPLORATION,
        default_reward: Some(0.0),
        features,
        ..AppSettings::new(DEFAULT_DIM)
    };
    let learning = Learning { wait_from_decision: true, ..Learning::default() };
    Ok(Request::CreateApp {
        app: app.to_owned(),
        settings,
        trial: Box::default(),
        learning: Box::new(learning),
        key: None,
    })
}

/// The configuration as it is.
pub async fn show(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
) -> Result<Json<Value>, DialectError> {
    Ok(Json(body_of(&*service.view(&asked.app).await?)))
}

/// Another configuration.
pub async fn put(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
    sent: Sent,
) -> Result<Json<Value>, DialectError> {
    let sent: Configuration = sent.json(BAD).await?;
    let before = service.view(&asked.app).await?;
    let window_ms = checked_wait(&sent.reward_wait_time)?;
    let aggregation = find(&sent.reward_aggregation, Aggregation::ALL.map(|a| (a.name(), a)))
        .ok_or_else(|| {
            let known = Aggregation::ALL.map(Aggregation::name).join(", ");
            let found = &sent.reward_aggregation;
            DialectError::bad(BAD, format!("rewardAggregation `{found}`: expected one of {known}"))
        })?;
    let mode = match &sent.learning_mode {
        None => before.learning.mode,
        Some(found) => {
            find(found, Mode::ALL.map(|mode| (name_of(mode), mode))).ok_or_else(|| {
                let known = Mode::ALL.map(name_of).join(", ");
                DialectError::bad(BAD, format!("learningMode `{found}`: expected one of {known}"))
            })?
        }
    };
    if !(-1.0..=1.0).contains(&sent.default_reward) {
        return Err(DialectError::bad(BAD, "defaultReward must be a number from -1 to 1"));
    }
    if !(0.0..=1.0).contains(&sent.exploration_percentage) {
        return Err(DialectError::bad(BAD, "explorationPercentage must be a number from 0 to 1"));
    }
    for (name, text) in [
        ("modelExportFrequency", &sent.model_export_frequency),
        ("autoOptimizationFrequency", &sent.auto_optimization_frequency),
    ] {
        if text.as_ref().is_some_and(|text| parse_duration(text).is_none()) {
            let sentence = format!("{name} must be a duration of ISO 8601, such as PT5M");
            return Err(DialectError::bad(BAD, sentence));
        }
    }
    if sent.log_retention_days.is_some_and(|days| days < -1) {
        let sentence = "logRetentionDays must be -1, for ever, or a number of days";
        return Err(DialectError::bad("InvalidLogRetentionDays", sentence));
    }
    // -1 is what versions before told where none were named.
    let most = sent.log_retention_days.filter(|days| *days >= 0).unwrap_or(i64::MAX);
    if sent.model_retrain_days.is_some_and(|days| days < -1 || days > most) {
        let sentence = "modelRetrainDays must be between 0 and logRetentionDays";
        return Err(DialectError::bad("InvalidModelRetrainDays", sentence));
    }
    let others = before.settings.window_ms != window_ms
        || before.settings.default_reward != Some(sent.default_reward)
        || before.learning.aggregation != aggregation;
    if mode != before.learning.mode && others {
        return Err(DialectError::bad(
            "InvalidLearningModeServiceConfiguration",
            "defaultReward, rewardWaitTime and rewardAggregation cannot be changed together with \
             learningMode: change the mode, then the others",
        ));
    }
    let kept = Kept {
        model_export_frequency: sent.model_export_frequency,
        log_retention_days: sent.log_retention_days,
        model_retrain_days: sent.model_retrain_days,
        is_auto_optimization_enabled: sent.is_auto_optimization_enabled,
        auto_optimization_frequency: sent.auto_optimization_frequency,
        auto_optimization_start_date: sent.auto_optimization_start_date,
        is_inference_explainability_enabled: sent.is_inference_explainability_enabled,
        edited_ms: Some(SystemClock.now_ms()),
        ..Kept::default()
    };
    let (default_reward, epsilon) = (sent.default_reward, sent.exploration_percentage);
    let change = move |settings: &mut AppSettings, _: &mut Trial, learning: &mut Learning| {
        settings.window_ms = window_ms;
        settings.default_reward = Some(default_reward);
        settings.epsilon = epsilon;
        learning.aggregation = aggregation;
        learning.mode = mode;
        learning.wait_from_decision = true;
        let Kept { policy, evaluations, .. } = Kept::of(learning);
        learning.dialect = Kept { policy, evaluations, ..kept }.text();
    };
    let view = service.change_loop(&asked, BAD, Box::new(change)).await?;
    Ok(Json(body_of(&view)))
}

/// Learning settings as they are.
pub async fn show_policy(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
) -> Result<Json<Policy>, DialectError> {
    let view = service.view(&asked.app).await?;
    Ok(Json(policy_of(&view)))
}

/// Other learning settings: kept and shown. How to learn the service decides by itself.
pub async fn put_policy(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
    sent: Sent,
) -> Result<Json<Policy>, DialectError> {
    const CODE: &str = "InvalidPolicyContract";
    let policy: Policy = sent.json(CODE).await?;
    check_id("the name", &policy.name, CODE)?;
    if policy.arguments.chars().count() > 1024 {
        return Err(DialectError::bad(CODE, "arguments are at most 1024 characters"));
    }
    service.set_policy(&asked, Some(policy)).await
}

/// The learning settings of the beginning.
pub async fn reset_policy(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
) -> Result<Json<Policy>, DialectError> {
    service.set_policy(&asked, None).await
}

impl Service {
    async fn set_policy(
        &self,
        asked: &Loop<{ Scopes::ADMIN }>,
        policy: Option<Policy>,
    ) -> Result<Json<Policy>, DialectError> {
        let change = move |_: &mut AppSettings, _: &mut Trial, learning: &mut Learning| {
            learning.dialect = Kept { policy, ..Kept::of(learning) }.text();
        };
        let view = self.change_loop(asked, "InvalidPolicyConfiguration", Box::new(change)).await?;
        Ok(Json(policy_of(&view)))
    }

    pub(super) async fn change_loop(
        &self,
        asked: &Loop<{ Scopes::ADMIN }>,
        code: &'static str,
        change: crate::engine::request::Change,
    ) -> Result<Box<AppView>, DialectError> {
        let request = Request::ChangeApp { app: asked.app.clone(), change };
        match self.engine.ask(request).await {
            Ok(Answer::App(view)) => {
                asked.who.did("app changed", &asked.app, "by a client of Personalizer");
                Ok(view)
            }
            Ok(_) => Err(bug()),
            Err(why) => Err(DialectError::from_refusal(why, code)),
        }
    }
}

fn checked_wait(text: &str) -> Result<u64, DialectError> {
    parse_duration(text).filter(|ms| (1..=MAX_WINDOW_MS).contains(ms)).ok_or_else(|| {
        let sentence = format!(
            "rewardWaitTime `{text}`: expected a duration such as PT10M, of at most 366 days"
        );
        DialectError::bad("InvalidRewardWaitTime", sentence)
    })
}

/// What has that name, in whatever case.
fn find<T: Copy>(name: &str, known: impl IntoIterator<Item = (&'static str, T)>) -> Option<T> {
    known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, found)| found)
}

fn name_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Online => "Online",
        Mode::Apprentice => "Apprentice",
        Mode::LoggingOnly => "LoggingOnly",
    }
}

fn policy_of(view: &AppView) -> Policy {
    Kept::of(&view.learning).policy.unwrap_or_else(|| Policy {
        name: "default".to_owned(),
        arguments: DEFAULT_ARGUMENTS.to_owned(),
    })
}

fn body_of(view: &AppView) -> Value {
    let kept = Kept::of(&view.learning);
    let mut body = json!({
        "rewardWaitTime": duration(view.settings.window_ms),
        "defaultReward": view.settings.default_reward.unwrap_or(0.0),
        "rewardAggregation": view.learning.aggregation.name(),
        "explorationPercentage": view.settings.epsilon,
        "modelExportFrequency": kept.model_export_frequency.as_deref().unwrap_or("PT1M"),
        "logRetentionDays": kept.log_retention_days.unwrap_or(-1),
        "modelRetrainDays": kept.retrain_days(),
        "logMirrorEnabled": false,
        "lastConfigurationEditDate": date(kept.edited_ms.unwrap_or(view.created_ms)),
        "learningMode": name_of(view.learning.mode),
        "isAutoOptimizationEnabled": kept.is_auto_optimization_enabled.unwrap_or(false),
        "isInferenceExplainabilityEnabled":
            kept.is_inference_explainability_enabled.unwrap_or(false),
    });
    let mut add = |name: &str, value: Option<Value>| {
        if let (Some(value), Some(fields)) = (value, body.as_object_mut()) {
            fields.insert(name.to_owned(), value);
        }
    };
    add("autoOptimizationFrequency", kept.auto_optimization_frequency.map(Value::from));
    add("autoOptimizationStartDate", kept.auto_optimization_start_date.map(Value::from));
    let watched = view.apprenticeship;
    add(
        "latestApprenticeModeMetrics",
        (watched.decisions > 0).then(|| {
            json!({
                "startTime": date(view.created_ms),
                "lastProcessedEventTime": date(SystemClock.now_ms()),
                "numberOfEvents": watched.decisions,
                "numberOfImitatedEvents": watched.agreed,
                "sumOfRewards": watched.reward_sum,
                "sumOfImitatedRewards": watched.agreed_reward_sum,
            })
        }),
    );
    body
}
