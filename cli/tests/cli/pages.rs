//! `gpuzip pages`: manual pages that groff takes without a complaint, and completions that complete.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const GPUZIP: &str = env!("CARGO_BIN_EXE_gpuzip");

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn written(name: &str) -> PathBuf {
    let share = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pages-{name}"));
    let _ = std::fs::remove_dir_all(&share);
    let output = run(Command::new(GPUZIP).arg("pages").arg(&share));
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    share
}

/// The names in the first column below `Commands:` in the help text.
fn subcommands() -> BTreeSet<String> {
    let help = run(Command::new(GPUZIP).arg("--help"));
    let lines = text(&help.stdout).lines().skip_while(|line| *line != "Commands:").skip(1);
    let names =
        lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_subcommand_has_a_page_with_all_its_options() {
    let manual = written("manual").join("man/man1");
    let pages: BTreeSet<String> = std::fs::read_dir(&manual)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let named = subcommands().into_iter().map(|name| format!("gpuzip-{name}.1"));
    assert_eq!(pages, named.chain(["gpuzip.1".to_owned()]).collect());
    assert!(pages.contains("gpuzip-plan.1"));
    for name in subcommands() {
        let help = run(Command::new(GPUZIP).args([&name, "--help"]));
        let options: Vec<&str> = text(&help.stdout)
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.starts_with("--"))
            .collect();
        let page = std::fs::read_to_string(manual.join(format!("gpuzip-{name}.1"))).unwrap();
        let page = page.replace("\\-", "-");
        for option in options {
            assert!(page.contains(option), "{option} is missing in the page of {name}");
        }
    }
    if Command::new("groff").arg("--version").output().is_err() {
        println!("skipped: groff is not installed");
        return;
    }
    for page in pages {
        let set =
            run(Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(manual.join(&page)));
        assert!(set.status.success() && set.stderr.is_empty(), "{page}: {}", text(&set.stderr));
        assert!(text(&set.stdout).contains("gpuzip"), "{page} is empty");
    }
}

#[test]
fn bash_completes_subcommands_and_options() {
    let script = written("bash").join("bash-completion/completions/gpuzip");
    let complete = |words: &str| {
        let mut all = words.split(' ').rev();
        let (last, before) = (all.next().unwrap(), all.next().unwrap());
        let program = format!(
            ". {}; COMP_WORDS=({words}); COMP_CWORD={}; _gpuzip gpuzip {last} {before}; echo ${{COMPREPLY[@]}}",
            script.display(),
            words.split(' ').count() - 1
        );
        text(&run(Command::new("bash").args(["-c", &program])).stdout).trim().to_owned()
    };
    assert_eq!(complete("gpuzip pl"), "plan");
    assert_eq!(complete("gpuzip plan --state-b"), "--state-bytes");
    assert_eq!(complete("gpuzip plan --algorithm two"), "two-level");
    assert_eq!(complete("gpuzip nothing"), "");
}

/// zsh and fish need not be installed: their scripts name every subcommand.
#[test]
fn zsh_and_fish_know_the_subcommands() {
    let share = written("shells");
    for file in ["zsh/site-functions/_gpuzip", "fish/vendor_completions.d/gpuzip.fish"] {
        let script = std::fs::read_to_string(share.join(file)).unwrap();
        for name in subcommands() {
            assert!(script.contains(&name), "{name} is missing in {file}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let output = run(Command::new(GPUZIP).args(["pages", "/proc/nowhere"]));
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.starts_with("gpuzip: error: cannot write to /proc/nowhere: "), "{error}");
}
