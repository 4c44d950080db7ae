//! Durable generations: bytes to files that survive a crash, and back with every byte checked.
//!
//! A *generation* is one self-contained copy of what one rank needs to go on. It is one file, a
//! *container*: a header that says which run, shot and action it is of, records of named bytes, an
//! index and a footer, all with checksums (`format.rs`; byte by byte in docs/persist-format.md).
//!
//! A rank opens its [`Store`] in a folder, and writes and publishes generations there:
//!
//! ```no_run
//! # use gpuzip::persist::{Fingerprint, Header, Kind, Name, RecordHead, Store};
//! # fn main() -> gpuzip::error::Result<()> {
//! let mut store = Store::open("restart".as_ref(), 0, 1, false)?;
//! let mut fingerprint = Fingerprint::new();
//! fingerprint.add("steps", 3751)?;
//! let image = [0; 1000];
//! let mut writer = store.begin(Header { fingerprint: fingerprint.clone(), shot: 7, it: -1 })?;
//! writer.record(RecordHead {
//!     kind: Kind::Array,
//!     name: Name::new("image")?,
//!     ts: -1,
//!     codec: 0,
//!     raw_bytes: 1000,
//!     stored_bytes: 1000,
//! })?;
//! writer.write(&image)?;
//! let finished = writer.finish()?; // `Writer` and `Finished` may be sent to another thread
//! store.publish(finished)?;
//!
//! // Goes on from the newest generation that all ranks can read. This is the only rank.
//! if let Some(reader) = store.newest(&fingerprint, &mut |value| Ok(value))? {
//!     let mut image = Vec::new();
//!     reader.read(0, &mut |bytes| Ok(image.extend_from_slice(bytes)))?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What holds:
//! - A published generation is on the disk under its name, or `publish` fails. A reader finds all of
//!   a generation or nothing of it.
//! - Two generations are kept. An older one goes only after a newer one was read back and checked.
//! - With several ranks, tell the store which generation all ranks have published
//!   ([`Store::confirm`]); until then older ones stay. All ranks begin their generations in the same
//!   order, so that a number means the same state on all of them.
//! - [`Store::newest`] passes over generations that are damaged or missing on any rank.
//! - A record whose checksum is wrong is an error of [`Container::read`]. What `read` gave out before
//!   is invalid then.
//! - One process at a time uses the files of a rank.
//! - A store may have a second folder ([`Store::share`]), to which a [`Shipper`] copies generations. A
//!   generation then counts if it is right in either folder.
//! - Blocks of parity ([`complete`]) give back blocks that were lost; `include/gpuzip_mpi.h` keeps such
//!   blocks of generations on other nodes.
//! - With [`Store::whole_every`], a generation refers to older ones for the records that have not changed. Those
//!   stay as long as one that is kept refers to them.
//! - Memory: 2 MiB (while a copy is packed, or a packed one read, 6 MiB), 200 bytes for each record and, for references, 8 bytes for each MiB.
//!
//! This floor knows no session and no schedule.

mod clone;
mod container;
mod fingerprint;
mod format;
mod journal;
mod level;
mod name;
mod names;
mod newest;
mod older;
mod pack;
mod parity;
mod shapes;
mod ship;
mod store;
mod writer;

#[cfg(test)]
mod incremental_tests;
#[cfg(test)]
mod pack_tests;

pub use clone::{clone_generation, Cloned};
pub use container::{check_origin, Container, Reader, Source};
pub use fingerprint::{Fingerprint, Meaning, MOST_VALUES};
pub use format::{Header, Kind, Origin, Place, Record, RecordHead, Start, MOST_RANKS, PIECE};
pub use journal::{lines, read as read_journal, Line, LINE};
pub use level::{check, make_whole, open};
pub use name::{Name, LONGEST_NAME};
pub use names::{files_in, FileName, LAST_GENERATION};
pub use parity::{complete, Block, MOST_BLOCKS};
pub use shapes::{FieldAt, Shapes, PREVIOUS_LEVEL, SHAPES, SNAPSHOT};
pub use ship::{shared_folder, Flusher, Shipped, Shipper};
pub use store::{AgreeMin, Finished, Store, Writer, KEPT, MOST_INCREMENTAL};
