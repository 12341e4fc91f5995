# Everyday commands; `just` lists them.

default:
    @just --list

# All tests, as the README and CI run them
test *ARGS:
    scripts/test {{ARGS}}

# Format everything
fmt:
    cargo fmt --all

# Lints, warnings denied
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# A first look: every kind of policy on clustered users
demo:
    cargo run --release -- simulate

# The paper's evaluation and its claims in about a minute; report/index.html
reproduce *ARGS:
    cargo run --release -- reproduce --quick {{ARGS}}

# The API documentation
doc:
    cargo doc --workspace --no-deps --open

# Tests of the Python package on a fresh wheel in a clean virtual environment
test-python *ARGS:
    scripts/test-python {{ARGS}}

# Licences, sources and duplicate versions of all dependencies (needs cargo-deny)
deny:
    cargo deny check licenses bans sources

# Speed beside the machine's limit and other libraries; bench/RESULTS.md
bench *ARGS:
    bench/run {{ARGS}}

# What the cohort policy is held to, measured
held-to *ARGS:
    scripts/held-to-cohort {{ARGS}}
