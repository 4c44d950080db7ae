//! `gpuzip flushd`: a process of its own, one on each node, that copies the generations of restart files from
//! the node's folder to the shared one. It goes on when the run is killed.

use crate::options::positive;
use crate::units::size;
use crate::{complain, Failure};
use clap::Args;
use gpuzip::device::in_background;
use gpuzip::error::{Code, Error, Result};
use gpuzip::persist::{Flusher, Shipped};
use gpuzip::stop;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often the folder is looked at.
const POLL: Duration = Duration::from_millis(100);
/// The longest pause after a failure, such as a full disk.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Copy restart files of all ranks of a node to the shared folder, also when the run is killed
#[derive(Args)]
pub struct Arguments {
    /// The folder of the node (persist_dir); runs name the shared one (persist_shared_dir)
    dir: PathBuf,
    /// End when what is there now is copied
    #[arg(long)]
    once: bool,
    /// After SIGTERM or SIGINT: seconds until the end, within which the rest is copied
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = positive, allow_hyphen_values = true)]
    grace: f64,
    /// Copy at most so many GB/s
    #[arg(long, value_name = "GB/S", value_parser = positive, allow_hyphen_values = true)]
    limit_gbs: Option<f64>,
    /// Fail for folders and files that another user could have changed, as the key strict does
    #[arg(long)]
    strict: bool,
}

/// Copies until everything is copied (`--once`), or until a signal asks to end.
pub fn run(arguments: &Arguments) -> std::result::Result<(), Failure> {
    stop::set_budget(arguments.grace);
    [libc::SIGTERM, libc::SIGINT].into_iter().try_for_each(stop::catch)?;
    in_background();
    let flusher = Flusher::open(&arguments.dir, arguments.strict)?;
    let (mut total, mut reasons, mut pause) = (Shipped::default(), BTreeMap::new(), POLL);
    let left = loop {
        // Read before the round: what was there then is copied by it.
        let is_last = arguments.once || stop::seconds_left().is_some();
        let failed = round(&flusher, arguments.limit_gbs, &mut total, &mut reasons)?;
        let is_over = stop::seconds_left().is_some_and(|left| left <= 0.0);
        if is_last && (!failed || arguments.once || is_over) {
            break failed;
        }
        pause = if failed { LONGEST_PAUSE.min(2 * pause) } else { POLL };
        wait(pause, true);
    };
    println!("copied: {} generations, {}", total.generations, size(total.bytes));
    if left {
        let dir = arguments.dir.display();
        let text = format!("{dir}: not everything could be copied: what is missing stays there");
        return Err(Error::new(Code::Io, text).into());
    }
    Ok(())
}

/// Copies for each rank what is to be copied now. Returns whether some rank's could not be; the reason is
/// printed where it differs from the one before.
fn round(
    flusher: &Flusher,
    limit_gbs: Option<f64>,
    total: &mut Shipped,
    reasons: &mut BTreeMap<u32, String>,
) -> Result<bool> {
    let mut failed = false;
    for shipper in flusher.shippers()? {
        let (begin, mut bytes) = (Instant::now(), 0.0);
        let shipped = shipper.ship(&mut |piece| {
            bytes += piece as f64;
            if let Some(gbs) = limit_gbs {
                let due = Duration::from_secs_f64(bytes / (gbs * 1e9));
                wait(due.saturating_sub(begin.elapsed()), false);
            }
            match stop::seconds_left() {
                Some(left) if left <= 0.0 => {
                    Err(Error::new(Code::Io, "the time that --grace gives is over"))
                }
                _ => Ok(()),
            }
        });
        match shipped {
            Ok(shipped) => {
                total.generations += shipped.generations;
                total.bytes += shipped.bytes;
                reasons.remove(&shipper.rank());
            }
            Err(error) => {
                failed = true;
                let reason = error.to_string();
                if reasons.get(&shipper.rank()) != Some(&reason) {
                    complain(format_args!("rank {}: {reason}\n", shipper.rank()));
                    reasons.insert(shipper.rank(), reason);
                }
            }
        }
    }
    Ok(failed)
}

/// Waits until the time is over, or what `--grace` gives is, or with `is_idle` until a signal asks to end.
fn wait(time: Duration, is_idle: bool) {
    let (begin, was_asked) = (Instant::now(), stop::seconds_left().is_some());
    loop {
        let rest = time.saturating_sub(begin.elapsed());
        let is_over = stop::seconds_left().is_some_and(|left| left <= 0.0 || is_idle && !was_asked);
        if rest.is_zero() || is_over {
            return;
        }
        sleep(rest.min(POLL));
    }
}
