//! Where do metrics and logs go?

use std::io::IsTerminal;
use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::config::Config;
use crate::measured;

/// The recorder of all metrics of this process, however many services it runs.
pub(super) fn recorder() -> Option<PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    const SECONDS: &[f64] =
        &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
    const EVENTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0, 4096.0];
    let set_up = || {
        use metrics_exporter_prometheus::Matcher::Full;
        let groups = Full("cohort_journal_group_events".to_owned());
        let builder = PrometheusBuilder::new().set_buckets(SECONDS).ok()?;
        let handle =
            builder.set_buckets_for_metric(groups, EVENTS).ok()?.install_recorder().ok()?;
        measured::describe();
        Some(handle)
    };
    RECORDER.get_or_init(set_up).clone()
}

/// Sends logs to standard error in the configured form. Only the first call in a process counts.
pub fn log(config: &Config) {
    use tracing_subscriber::EnvFilter;
    // Who changed what is always told.
    let levels = format!("warn,cohort_server={},cohort_server::audit=info", config.log_level);
    let filter = EnvFilter::new(levels);
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let _ = match config.log_format.as_str() {
        "json" => logs.json().try_init(),
        _ => logs.try_init(),
    };
}
