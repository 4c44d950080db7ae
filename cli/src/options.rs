//! The options that describe a schedule, and the schedule that they ask for.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::Args;
use gpuzip::capi::{Key, KEYS};
use gpuzip::error::{Code, Error, Result};
use gpuzip::schedule::{adjust, Algorithm, MacroSteps, Schedule, Trace, MAX_STEPS};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

/// A schedule, as asked for. Zero means "not set", as in the library's configuration.
#[derive(Args)]
pub struct ScheduleOptions {
    /// The algorithm; auto: the plan that a session with auto chooses. Without the option `plan` finds the
    /// quickest, for which it tries more
    #[arg(long, value_parser = algorithms())]
    algorithm: Option<Named>,
    /// The same as --algorithm online: as if the number of time steps were unknown until the forward
    /// phase ends after --steps
    #[arg(long, conflicts_with = "algorithm")]
    online: bool,
    /// Time steps; for trace taken from the file
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub steps: Option<u32>,
    /// Snapshots stored at one time, at most; zcut takes what its chunks need if none are given,
    /// store-all and trace always do
    #[arg(long, value_name = "S", value_parser = count, default_value_t = 0, hide_default_value = true, allow_hyphen_values = true)]
    pub snapshots: u32,
    /// The adjoint needs u at every K-th time step only (adjoint_every): K time steps count as one for
    /// snapshots, chunks and traces
    #[arg(long, value_name = "K", value_parser = at_least_one, default_value_t = 1, hide_default_value = true, allow_hyphen_values = true)]
    pub every: u32,
    /// Reverse sweeps over the states of one forward phase (sweeps)
    #[arg(long, value_name = "K", value_parser = at_least_one, default_value_t = 1, hide_default_value = true, allow_hyphen_values = true)]
    pub sweeps: u32,
    /// Chunk of zcut, interval of two-level and hrevolve, in states; chosen if not given
    #[arg(long, value_name = "M", value_parser = count, default_value_t = 0, hide_default_value = true, allow_hyphen_values = true)]
    chunk: u32,
    /// Slots inside an interval of two-level or hrevolve, its checkpoint's included, at most
    #[arg(long, value_name = "C", value_parser = count, default_value_t = 0, hide_default_value = true, allow_hyphen_values = true)]
    inner: u32,
    /// Of the schedules with as few steps, the one that moves least through a device cache of so
    /// many slots
    #[arg(long, value_name = "C", value_parser = count, default_value_t = 0, hide_default_value = true, allow_hyphen_values = true)]
    for_cache: u32,
    /// Uniform as GPUZIP 2.x published it: a baseline
    #[arg(long)]
    published: bool,
    /// Snapshots of revolve by GPUZIP 2.x's rule
    #[arg(long)]
    adjust: bool,
    /// Recorded schedule, one `<timestep> <ACTION>` per line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// An algorithm by its name; `None` stands for auto.
#[derive(Clone, Copy)]
struct Named(Option<Algorithm>);

fn algorithms() -> impl TypedValueParser<Value = Named> {
    ValueOf::key("checkpointing_algorithm", &[])
        .map(|name| Named(Algorithm::ALL.into_iter().find(|a| a.name() == name)))
}

/// Parses a value of a configuration key, written as in a configuration file, to its name.
#[derive(Clone)]
pub struct ValueOf {
    key: &'static Key,
    /// The names that the option offers.
    names: Vec<&'static str>,
}

impl ValueOf {
    /// The parser of the key `name`; the option does not offer the values in `without`.
    pub fn key(name: &str, without: &[&str]) -> Self {
        let key = KEYS.iter().find(|key| key.name == name).unwrap_or(&KEYS[0]);
        let offered = |name: &&str| key.value_name(name) == Some(*name) && !without.contains(name);
        ValueOf { key, names: key.value_names().filter(offered).collect() }
    }
}

impl TypedValueParser for ValueOf {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> std::result::Result<String, clap::Error> {
        let name = value.to_str().and_then(|text| self.key.value_name(text)).map(OsStr::new);
        let names = PossibleValuesParser::new(&self.names);
        names.parse_ref(command, argument, name.unwrap_or(value))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

/// Parses a whole number as in a configuration, where 1e4 is a whole number.
pub fn count(text: &str) -> std::result::Result<u32, String> {
    let number = gpuzip::numbers::whole(text)
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number <= MAX_STEPS);
    number.ok_or_else(|| format!("give a whole number from 0 to {MAX_STEPS}"))
}

/// Parses a whole number that is not 0.
pub fn at_least_one(text: &str) -> std::result::Result<u32, String> {
    match count(text) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("give a whole number from 1 to {MAX_STEPS}")),
    }
}

/// Parses a finite number greater than 0.
pub fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|v: &f64| v.is_finite() && *v > 0.0);
    number.ok_or_else(|| "give a number greater than 0".into())
}

pub fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(Code::Config, message))
}

impl ScheduleOptions {
    /// Returns the algorithm that was asked for; `None` for auto or if none was named.
    pub fn algorithm(&self) -> Option<Algorithm> {
        if self.online {
            return Some(Algorithm::Online);
        }
        self.algorithm.and_then(|named| named.0)
    }

    /// Whether the algorithm auto was named.
    pub fn is_auto(&self) -> bool {
        self.algorithm.is_some_and(|named| named.0.is_none())
    }

    /// Makes the schedule. `inner` is the number of slots inside a two-level interval if --inner is
    /// not given; 0 stands for all slots that are left.
    pub fn schedule(&self, inner: u32) -> Result<Schedule> {
        let schedule = self.plain(inner)?.through(self.for_cache).in_sweeps(self.sweeps)?;
        Ok(match self.macro_steps() {
            Some(macro_steps) => schedule.in_macro_steps(macro_steps),
            None => schedule,
        })
    }

    /// Returns the macro-steps that the time steps form; `None` without --steps.
    pub fn macro_steps(&self) -> Option<MacroSteps> {
        self.steps.map(|steps| MacroSteps::new(self.every, steps))
    }

    fn plain(&self, inner: u32) -> Result<Schedule> {
        let Some(algorithm) = self.algorithm() else {
            return refuse(match self.algorithm {
                Some(_) => {
                    "--algorithm auto: which schedule is the quickest depends on costs and budgets; see gpuzip plan --state-bytes".into()
                }
                None => "which schedule? give --algorithm".to_string(),
            });
        };
        self.check_options(Some(algorithm))?;
        if algorithm == Algorithm::Trace {
            return self.recorded();
        }
        let Some(macro_steps) = self.macro_steps() else {
            return refuse(format!(
                "{} needs the number of time steps: give --steps",
                algorithm.name()
            ));
        };
        let steps = macro_steps.count();
        let snapshots = self.snapshots;
        match algorithm {
            Algorithm::Revolve if self.adjust => {
                Schedule::revolve(steps, adjust(steps as u64).min(steps.saturating_sub(1).max(1)))
            }
            Algorithm::Revolve => Schedule::revolve(
                steps,
                self.needed_snapshots(algorithm, "--snapshots, or --adjust for GPUZIP's rule")?,
            ),
            Algorithm::Uniform if self.published => {
                Schedule::uniform_published(steps, self.needed_snapshots(algorithm, "--snapshots")?)
            }
            Algorithm::Uniform => {
                Schedule::uniform(steps, self.needed_snapshots(algorithm, "--snapshots")?)
            }
            Algorithm::Zcut => Schedule::zcut(steps, snapshots, self.chunk),
            Algorithm::TwoLevel => {
                let inner = if self.inner == 0 { inner } else { self.inner };
                Schedule::two_level(
                    steps,
                    self.needed_snapshots(algorithm, "--snapshots")?,
                    self.chunk,
                    inner,
                )
            }
            Algorithm::Hrevolve => {
                let inner = if self.inner == 0 { inner } else { self.inner };
                let snapshots = self.needed_snapshots(algorithm, "--snapshots")?;
                Schedule::hrevolve(steps, snapshots, self.chunk, inner)
            }
            Algorithm::Online => {
                let snapshots = self.needed_snapshots(algorithm, "--snapshots")?;
                Schedule::online(steps, snapshots, false)
            }
            Algorithm::StoreAll | Algorithm::Trace => Schedule::store_all(steps),
        }
    }

    fn recorded(&self) -> Result<Schedule> {
        let Some(path) = &self.trace else {
            return refuse("trace needs a recorded schedule: give --trace FILE".into());
        };
        let macro_steps = self.macro_steps();
        if self.every > 1 && macro_steps.is_none() {
            return refuse(format!(
                "--every {}: the trace has macro-steps; how many time steps are they? give --steps",
                self.every
            ));
        }
        Ok(Schedule::trace(Arc::new(Trace::load(path, macro_steps.map(|all| all.count()))?)))
    }

    /// Fails if an option was given that the algorithm does not use: it is probably a mistake.
    /// `None` stands for any algorithm.
    pub fn check_options(&self, algorithm: Option<Algorithm>) -> Result<()> {
        use Algorithm::{Hrevolve, Revolve, Trace, TwoLevel, Uniform, Zcut};
        let of: [(&str, bool, &[Algorithm]); 6] = [
            ("--chunk", self.chunk > 0, &[Zcut, TwoLevel, Hrevolve]),
            ("--inner", self.inner > 0, &[TwoLevel, Hrevolve]),
            ("--for-cache", self.for_cache > 0, &[Revolve, Uniform, TwoLevel, Hrevolve]),
            ("--published", self.published, &[Uniform]),
            ("--adjust", self.adjust, &[Revolve]),
            ("--trace", self.trace.is_some(), &[Trace]),
        ];
        for (option, given, algorithms) in of {
            if given && !algorithm.is_some_and(|algorithm| algorithms.contains(&algorithm)) {
                let names: Vec<_> = algorithms.iter().map(|a| a.name()).collect();
                let this = algorithm.map_or("the search", Algorithm::name);
                return refuse(format!(
                    "{option} has no meaning for {this}: it belongs to {}",
                    names.join(" and ")
                ));
            }
        }
        if self.adjust && self.snapshots > 0 {
            return refuse(format!(
                "--snapshots {} and --adjust both set the number of snapshots: give one of them",
                self.snapshots
            ));
        }
        Ok(())
    }

    fn needed_snapshots(&self, algorithm: Algorithm, options: &str) -> Result<u32> {
        match self.snapshots {
            0 => refuse(format!(
                "{} needs the number of snapshots, at least 1: give {options}",
                algorithm.name()
            )),
            snapshots => Ok(snapshots),
        }
    }
}
