//! The registry's promise: adding a policy is one file and its place in `policies/mod.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use cohort::registry::POLICIES;

/// All files below a folder, generated ones left out.
fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files_below(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn module(name: &str) -> String {
    name.replace('-', "_")
}

/// Policies after `cohort` are those that came after the promise was kept. What is named in code
/// would have to be changed with it: of them, nothing outside their own files is.
#[test]
fn no_code_but_its_own_names_a_policy() {
    let mut sources = Vec::new();
    for package in fs::read_dir(crates()).unwrap() {
        let source = package.unwrap().path().join("src");
        if source.is_dir() {
            files_below(&source, &mut sources);
        }
    }
    sources.retain(|path| path.extension().is_some_and(|end| end == "rs" || end == "py"));
    let texts: Vec<(PathBuf, String)> = (sources.into_iter())
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    assert!(texts.len() > 100, "the sources were found");

    let place = POLICIES.iter().position(|info| info.name == "cohort").unwrap();
    for info in &POLICIES[place + 1..] {
        let (module, literal) = (module(info.name), format!("\"{}\"", info.name));
        let own = |path: &Path| {
            path.components().any(|part| {
                let part = Path::new(part.as_os_str());
                part.file_stem().is_some_and(|stem| *stem == *module)
            })
        };
        for (path, text) in texts.iter().filter(|(path, _)| !own(path)) {
            // A file that is included may have the name of whose protocol it is.
            let named = |line: &&str| line.contains(&literal) && !line.contains("include_str!");
            let line = text.lines().find(named);
            assert!(line.is_none(), "{} names {}: {line:?}", path.display(), info.name);
        }
    }
}

/// A file that was forgotten in the list is found, and so is a name that is not its file's.
#[test]
fn every_file_with_a_policy_is_in_the_list() {
    let folder = crates().join("cohort/src/policies");
    let mut modules: Vec<String> = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_policy = path.is_file()
            && fs::read_to_string(&path).unwrap().contains("\npub const INFO: PolicyInfo");
        if is_policy {
            modules.push(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    let mut listed: Vec<String> = POLICIES.iter().map(|info| module(info.name)).collect();
    modules.sort();
    listed.sort();
    assert_eq!(modules, listed);
}
