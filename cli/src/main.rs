//! The `gpuzip` command: shows and checks schedules, counts the transfers of their plans, compares
//! runs with their plans, measures codecs on a user's data, compiles kernels in advance, verifies
//! restart files, keeps them and copies them to a shared folder, checks configurations, shows what this machine can
//! use, and writes manual pages and completions of shells.

mod clone;
mod codec;
mod config;
mod flushd;
mod info;
mod inspect;
mod kernels;
mod metrics;
mod options;
mod output;
mod pages;
mod plan;
mod report;
mod schedule;
mod units;

use clap::{CommandFactory, Parser, Subcommand};
use gpuzip::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Schedules and transfer plans for adjoint checkpointing.
#[derive(Parser)]
#[command(name = "gpuzip", version, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Schedule(schedule::Arguments),
    Plan(Box<plan::Arguments>),
    Report(report::Arguments),
    Codec(codec::Arguments),
    Kernels(kernels::Arguments),
    Inspect(inspect::Arguments),
    Flushd(flushd::Arguments),
    Clone(clone::Arguments),
    Config(config::Arguments),
    Info(info::Arguments),
    Pages(pages::Arguments),
}

/// Why the command stops.
enum Failure {
    /// The library, or the check of the options, refused the input.
    Input(Error),
    /// The output could not be written.
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::Input(e)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::Output(e)
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Schedule(arguments) => schedule::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Codec(arguments) => codec::run(&arguments),
        Command::Kernels(arguments) => kernels::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Flushd(arguments) => flushd::run(&arguments),
        Command::Clone(arguments) => clone::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Pages(arguments) => pages::run(Cli::command(), &arguments),
    }
}

/// Writes to standard error; a failure to write is ignored, since nothing is left to report it to.
fn complain(message: impl std::fmt::Display) {
    let _ = write!(io::stderr(), "gpuzip: {message}");
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) if e.use_stderr() => {
            complain(e);
            return ExitCode::from(2);
        }
        // clap returns --help and --version here too.
        Err(e) => e.exit(),
    };
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Input(e)) => {
            complain(format_args!("error: {e}\n"));
            ExitCode::from(2)
        }
        // The reader of a pipe, `head` for instance, has closed it.
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(e)) => {
            complain(format_args!("error: cannot write the output: {e}\n"));
            ExitCode::FAILURE
        }
    }
}
