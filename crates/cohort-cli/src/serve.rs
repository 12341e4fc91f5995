//! `cohort serve`: the decision server.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use cohort_server::cluster::durability::Durability;
use cohort_server::cluster::server::ClusterServer;
use cohort_server::config::Config;
use cohort_server::config::keys::{KEYS, VARIABLE_PREFIX, example};
use cohort_server::demo;
use cohort_server::server::{self, Server};

use crate::failure::{Done, Failure, print};

/// Serve decisions over HTTP, and learn from the rewards
#[derive(Args)]
pub struct Serve {
    /// Configuration file in TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a configuration with every key, its meaning and its default, and exit
    #[arg(long)]
    print_config: bool,
    /// Add synthetic users, to see cohorts form in the browser; uses a data folder of its own
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    keys: Keys,
}

/// One flag for every key of the configuration.
pub(crate) struct Keys(Vec<(String, String)>);

impl Keys {
    /// The configuration of a file, the environment and these flags.
    pub(crate) fn load(self, file: Option<&std::path::Path>) -> Result<Config, Failure> {
        Config::load(file, environment()?, self.0)
            .map_err(|why| Failure::bad_input(why.to_string()))
    }
}

impl Serve {
    /// Starts the service and runs it until it is asked to stop.
    pub fn run(self) -> Result<Done, Failure> {
        if self.print_config {
            print(&example())?;
            return Ok(Done::Complete);
        }
        let mut config = self.keys.load(self.config.as_deref())?;
        if self.demo {
            // Synthetic users must never be mixed with real ones.
            config.data_dir = config.data_dir.with_file_name(demo::FOLDER);
        }
        server::log(&config);
        if !config.nats.is_empty() {
            return serve_in_cluster(config, self.demo);
        }
        let keyless = !config.needs_keys();
        let scheme = if config.tls_cert.as_os_str().is_empty() { "http" } else { "https" };
        let failed = |why: server::ServeError| Failure::failed(why.to_string());
        let folder = config.data_dir.display().to_string();
        let mut server = Server::open(config).map_err(failed)?;
        let address = format!("{scheme}://{}", server.address());
        let mut said = format!("cohort is listening on {address}\n");
        if self.demo {
            server = server.with_demo();
            said.push_str(&format!(
                "this is a demo: its users are made up, its data is in {folder}\n\
                 open {address}/#/app/{} in a browser and watch cohorts form\n",
                demo::APP
            ));
        }
        if keyless {
            said.push_str("no admin_key is set: whoever is on this machine may ask anything\n");
        }
        print(&said)?;
        let runtime = server::request_threads();
        let runtime = runtime.map_err(|why| Failure::failed(format!("no threads: {why}")))?;
        runtime.block_on(server.serve(asked_to_stop())).map_err(failed)?;
        Ok(Done::Complete)
    }
}

/// A node of a cluster.
fn serve_in_cluster(config: Config, demo: bool) -> Result<Done, Failure> {
    if demo {
        let sentence = "--demo is for a single service; scripts/cluster-demo starts a cluster with made-up users";
        return Err(Failure::bad_input(sentence));
    }
    let failed = |why: server::ServeError| Failure::failed(why.to_string());
    let scheme = if config.tls_cert.as_os_str().is_empty() { "http" } else { "https" };
    let keyless = !config.needs_keys();
    let server = ClusterServer::open(config).map_err(failed)?;
    let address = format!("{scheme}://{}", server.address());
    let shape = server.shape();
    let mut said = format!(
        "cohort is listening on {address}\nthis is node {} of a cluster with {} partitions, kept on {} server{}\n",
        server.node(),
        shape.partitions,
        shape.replicas,
        if shape.replicas == 1 { "" } else { "s" },
    );
    match server.durability() {
        Durability::Synced => {
            said.push_str("an answer is given when a quorum of servers has synced it\n");
            if !server.silent().is_empty() {
                let silent = server.silent().join(", ");
                said.push_str(&format!("no answer yet whether these servers sync, too: {silent}\n"));
            }
        }
        Durability::Replicated(why) => said.push_str(&format!(
            "an answer is given when a quorum of servers has it, which may not have synced it: {why}\n"
        )),
    }
    if keyless {
        said.push_str("no admin_key is set: whoever is on this machine may ask anything\n");
    }
    print(&said)?;
    let runtime = server::request_threads();
    let runtime = runtime.map_err(|why| Failure::failed(format!("no threads: {why}")))?;
    runtime.block_on(server.serve(asked_to_stop())).map_err(failed)?;
    Ok(Done::Complete)
}

/// The environment variables of the service. Other variables may hold anything.
fn environment() -> Result<Vec<(String, String)>, Failure> {
    let named =
        std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
    let ours = named.filter(|(name, _)| name.starts_with(VARIABLE_PREFIX));
    let read = ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => {
            let sentence = format!("environment {name}: its value is not UTF-8; expected UTF-8");
            Err(Failure::bad_input(sentence))
        }
    });
    read.collect()
}

/// Waits for Ctrl-C or the signal of an init system.
async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        // Without a handler the signal ends the process as usual.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

impl Args for Keys {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().fold(command, |command, key| {
            let flag = key.name.replace('_', "-");
            let help = format!("{} [default: {}]", key.meaning, key.default_value());
            command.arg(Arg::new(key.name).long(flag).value_name("VALUE").help(help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Keys {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: &str| matches.get_one::<String>(name).cloned();
        let pairs = KEYS.iter().filter_map(|key| Some((key.name.to_owned(), given(key.name)?)));
        Ok(Self(pairs.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
