//! Every command of the pages runs in a test as it is printed, or is listed with the reason: tests/foreign/blocks.rs
//! runs all commands that tests/common/commands.rs finds and does not list.

use crate::common::commands::{in_block, in_prose, is_command, NOT_RUN, PYTHON};
use crate::common::pages::pages;
use crate::common::root;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn every_command_that_is_listed_stands_on_a_page() {
    let pages = pages();
    let typed = pages.iter().flat_map(|page| {
        let blocks = page.blocks().into_iter().filter(|block| block.language == "sh");
        blocks.flat_map(|block| in_block(&block)).chain(in_prose(page)).map(|command| command.text)
    });
    let typed: BTreeSet<String> = typed.collect();
    let mut listed = BTreeSet::new();
    for (reason, commands) in NOT_RUN {
        for command in *commands {
            assert!(
                typed.contains(*command),
                "no page has the command that is not run ({reason}): {command}"
            );
            assert!(listed.insert(*command), "listed twice: {command}");
        }
    }
    assert!(
        typed.len() > listed.len() + 100,
        "{} of {} run",
        typed.len() - listed.len(),
        typed.len()
    );
}

/// Only blocks `sh` are run: commands in blocks of output, or in blocks with indentation, would not be found.
#[test]
fn commands_are_in_blocks_of_the_shell() {
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.language == "text") {
            for line in block.text.lines() {
                let line = line.trim_start_matches("$ ");
                assert!(
                    !is_command(line),
                    "{}:{}: a block `sh` has commands: {line}",
                    page.name,
                    block.line
                );
            }
        }
        for (at, line, _) in page.lines() {
            let fence = line.trim_start();
            let other =
                fence.starts_with("~~~") || fence.starts_with("```") && fence.len() < line.len();
            assert!(!other, "{}:{at}: a block begins with ``` and no indentation", page.name);
        }
    }
}

#[test]
fn the_programs_in_python_have_tests_that_take_them_from_their_page() {
    let tests = root().join("python/tests");
    for page in pages() {
        let programs = page.blocks().iter().filter(|block| block.language == "python").count();
        let found: Vec<&str> =
            PYTHON.iter().filter(|(name, _)| *name == page.name).map(|(_, test)| *test).collect();
        assert_eq!(found.is_empty(), programs == 0, "{}: {programs} programs in Python", page.name);
        for test in found {
            let text =
                fs::read_to_string(tests.join(test)).unwrap_or_else(|e| panic!("{test}: {e}"));
            assert!(text.contains(&page.name), "python/tests/{test} does not read {}", page.name);
        }
    }
}
