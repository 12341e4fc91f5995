//! The examples run, and what they assert of themselves holds.

#[path = "../examples/embed.rs"]
mod embed;
#[path = "../examples/one_at_a_time.rs"]
mod one_at_a_time;
#[path = "../examples/own_policy.rs"]
mod own_policy;
#[path = "../examples/rounds.rs"]
mod rounds;

#[test]
fn a_loop_over_rounds() {
    rounds::main().unwrap();
}

#[test]
fn users_one_at_a_time() {
    one_at_a_time::main().unwrap();
}

#[test]
fn a_policy_of_your_own() {
    own_policy::main().unwrap();
}

#[test]
fn the_engine_embedded_without_the_server() {
    embed::main().unwrap();
}
