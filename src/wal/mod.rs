//! A write-ahead log that is usable alone: entries of bytes in, durable once synced, read back in order.
//!
//! Owns files, checksums, syncs, recovery. Does not own what entries mean.
//!
//! # What it promises
//!
//! - An entry that was appended survives the end of the process (S5), and a loss of power once
//!   [`Wal::sync`] returned. An append is there whole or not at all.
//! - What was acknowledged is delivered, once and in order, or opening and reading fail and say where the
//!   damage is: a torn tail is told from damage by what was acknowledged, never guessed.
//! - What was only submitted ([`Wal::submit`]) promises nothing until its [`Ticket`] says that it is durable,
//!   and is then as good as appended and synced.
//! - A failed write, sync or rename ends the log for all ([`WalError::Poisoned`]) until it is opened again.
//! - A full disk, or a full log, is an ordinary error of an append that changed nothing.
//!
//! # Positions
//!
//! An [`Lsn`](crate::stream::Lsn) counts the bytes of frames from the birth of the log on. Frames lie end to
//! end; the headers of segment files and their seals have no positions, so that a segment begins at the
//! position at which the one before ends. The first frame is at 0, the first entry at 64.
//!
//! # Where to read
//!
//! The modules below are in groups: what can be said, the bytes, reading them, opening, appending, looking, and
//! what is done by hand: `survey` finds what there is of a damaged log, `salvage` hands it out, `repair` cuts,
//! `backup` copies. `frame`, `entry`, `segment` and `manifest` draw the bytes; `writer` and `open` say what a crash
//! leaves at each step; `judge` tells a torn tail from damage.
//!
//! # Examples
//!
//! ```
//! use alluvium::doors::Doors;
//! use alluvium::wal::{Wal, WalSettings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let home = tempfile::tempdir()?;
//! let dir = home.path().join("log");
//! let settings = WalSettings { segment_bytes: 1 << 20, ..WalSettings::default() };
//!
//! let (wal, opened) = Wal::open(&dir, settings.clone(), &Doors::real())?;
//! assert!(opened.fresh);
//! let appended = wal.append(&[b"first".as_slice(), b"second"])?;
//! assert_eq!(wal.sync()?, appended.end); // durable from here on
//! assert_eq!(wal.read(appended.lsns[1])?, b"second");
//! drop(wal); // as if the process had ended
//!
//! let (wal, opened) = Wal::open(&dir, settings, &Doors::real())?;
//! assert_eq!(opened.end, appended.end);
//! let mut entries = Vec::new();
//! for logged in wal.replay(wal.start())? {
//!     entries.push(logged?.entry);
//! }
//! assert_eq!(entries, [b"first".to_vec(), b"second".to_vec()]);
//!
//! // Many appends at a time: each has a ticket, and one sync makes all of them durable.
//! let tickets = [wal.submit(&[b"third".as_slice()])?, wal.submit(&[b"fourth".as_slice()])?];
//! for ticket in &tickets {
//!     ticket.wait()?; // in a task: ticket.durable().await?
//! }
//! wal.close()?;
//! # Ok(())
//! # }
//! ```

mod error;
mod settings;

mod entry;
mod folder;
mod frame;
mod manifest;
mod segment;

mod chain;
mod judge;
mod view;
mod walk;

mod open;
mod quarantine;
mod spares;
mod stray;

mod group;
mod health;
mod log;
mod writer;

mod reader;

mod backup;
mod repair;
mod salvage;
mod survey;

#[cfg(test)]
mod tests;

pub use backup::backup;
pub use error::WalError;
pub use log::Appended;
pub use log::Ticket;
pub use log::Wal;
pub use log::WalStats;
pub use open::Cut;
pub use open::Opened;
pub use reader::Verified;
pub use reader::WalReader;
pub use repair::Loss;
pub use repair::Truncation;
pub use repair::truncate_after;
pub use salvage::Gap;
pub use salvage::Salvage;
pub use salvage::Salvaged;
pub use salvage::salvage;
pub use settings::WalSettings;
pub use view::Logged;
pub use view::LoggedRef;
pub use view::Replay;
