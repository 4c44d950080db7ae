//! `gpuzip pages`: writes the manual pages and the completions of shells.

use crate::Failure;
use clap::{Args, Command};
use clap_complete::{generate_to, Shell};
use gpuzip::error::{Code, Error};
use std::fs::create_dir_all;
use std::io;
use std::path::{Path, PathBuf};

/// Write the manual pages, and the completions of bash, zsh and fish, as files below a folder
///
/// The folder takes the place of a prefix's `share`: `man/man1/gpuzip.1` and a page for each
/// subcommand, `bash-completion/completions/gpuzip`, `zsh/site-functions/_gpuzip` and
/// `fish/vendor_completions.d/gpuzip.fish`. `make install` installs them.
#[derive(Args)]
pub struct Arguments {
    /// The folder; it is made if it is not there
    folder: PathBuf,
}

/// Shells, and the folder below `share` in which each looks for completions.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

fn write(mut command: Command, share: &Path) -> io::Result<()> {
    // Names the pages of subcommands `gpuzip-plan` and so on, and their usage `gpuzip plan`.
    command.build();
    let manual = share.join("man/man1");
    create_dir_all(&manual)?;
    clap_mangen::generate_to(command.clone(), &manual)?;
    for (shell, folder) in SHELLS {
        let folder = share.join(folder);
        create_dir_all(&folder)?;
        let written = generate_to(shell, &mut command, "gpuzip", &folder)?;
        if shell == Shell::Bash {
            // bash-completion finds a file by the name of the command.
            std::fs::rename(written, folder.join("gpuzip"))?;
        }
    }
    Ok(())
}

pub fn run(command: Command, arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    write(command.disable_help_subcommand(true), folder).map_err(|e| {
        Failure::Input(Error::new(Code::Io, format!("cannot write to {}: {e}", folder.display())))
    })
}
