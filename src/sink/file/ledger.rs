//! What a file sink's state says, for those who look at it: `verify`, `inspect`, `gc`.
//!
//! Owns the keys and lists of the sink's state (see [`super::part`] for their bytes).

use std::ops::Range;

use crate::error::Error;
use crate::error::Result;
use crate::sink::file::bucket::BucketKey;
use crate::sink::file::name::PartName;
use crate::sink::file::part::ClosedPart;
use crate::sink::file::part::Content;
use crate::sink::file::part::Now;
use crate::sink::file::part::PartRecord;
use crate::state::State;
use crate::state::StateView;
use crate::stream::Epoch;
use crate::stream::Spans;

/// List of the committed files.
pub(super) const LEDGER: &[u8] = b"ledger";
/// List of the files that were given up.
pub(super) const LOSSES: &[u8] = b"losses";
/// The table's folder.
pub(super) const TABLE: &[u8] = b"table";
const PART: &str = "part/";

/// The key of a part's value.
pub(super) fn part_key(name: &PartName) -> Vec<u8> {
    format!("{PART}{name}").into_bytes()
}

/// The list of a part's row groups.
pub(super) fn groups_list(name: &PartName) -> Vec<u8> {
    format!("groups/{name}").into_bytes()
}

/// The list of a part's rows that wait.
pub(super) fn rows_list(name: &PartName) -> Vec<u8> {
    format!("rows/{name}").into_bytes()
}

/// The state of a file sink's task: live, or a view of a checkpoint.
pub trait SinkState {
    /// As [`State::get`].
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// As [`State::keys`].
    fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>>;
    /// As [`State::list`].
    fn list(&self, list: &[u8]) -> Range<u64>;
    /// As [`State::item`].
    fn item(&self, list: &[u8], index: u64) -> Result<Vec<u8>>;
}

macro_rules! sink_state {
    ($type:ty) => {
        impl SinkState for $type {
            fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
                <$type>::get(self, key)
            }

            fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
                <$type>::keys(self, prefix)
            }

            fn list(&self, list: &[u8]) -> Range<u64> {
                <$type>::list(self, list)
            }

            fn item(&self, list: &[u8], index: u64) -> Result<Vec<u8>> {
                <$type>::item(self, list, index)
            }
        }
    };
}

sink_state!(State);
sink_state!(StateView);

/// The committed files, in the order of their commits. One that its owner removed later is still
/// among them (D3).
pub fn ledger(state: &impl SinkState) -> impl Iterator<Item = Result<ClosedPart>> {
    closed(state, LEDGER)
}

/// The files that were lost and given up by `accept_loss`.
pub fn losses(state: &impl SinkState) -> impl Iterator<Item = Result<ClosedPart>> {
    closed(state, LOSSES)
}

/// As [`ledger`], without the first `from` files.
pub fn ledger_from(state: &impl SinkState, from: u64) -> impl Iterator<Item = Result<ClosedPart>> {
    let indices = state.list(LEDGER).skip_while(move |index| *index < from);
    indices.map(move |index| ClosedPart::decode_ledger(&state.item(LEDGER, index)?))
}

fn closed(state: &impl SinkState, list: &'static [u8]) -> impl Iterator<Item = Result<ClosedPart>> {
    state.list(list).map(move |index| ClosedPart::decode_ledger(&state.item(list, index)?))
}

/// A part file that is not committed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPart {
    /// Its name in staging, and later in the bucket.
    pub name: PartName,
    /// Where it belongs.
    pub bucket: BucketKey,
    /// What is in the file.
    pub content: Content,
    /// Rows that wait in the state for a row group.
    pub waiting_rows: u64,
    /// Row groups in the file.
    pub row_groups: u64,
    /// It is closed and becomes visible with its checkpoint.
    pub pending: bool,
    /// The epoch whose barrier closed it, once it is closed.
    pub epoch: Option<Epoch>,
    /// Where its rows come from, those that wait included.
    pub spans: Spans,
}

/// The files that are not committed yet, by name.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] when a record does not read back.
pub fn open_parts(state: &impl SinkState) -> Result<Vec<OpenPart>> {
    // Ages are not looked at: any moment will do.
    let parts = part_records(state, Now::default())?.into_iter().map(|record| match record {
        PartRecord::InProgress(part) => OpenPart {
            name: part.name,
            bucket: part.bucket,
            content: part.content,
            waiting_rows: part.spilled.rows,
            row_groups: part.row_groups,
            pending: false,
            epoch: None,
            spans: part.spans,
        },
        PartRecord::Pending(part) => OpenPart {
            name: part.name,
            bucket: part.bucket,
            content: part.content,
            waiting_rows: 0,
            row_groups: 0,
            pending: true,
            epoch: Some(part.epoch),
            spans: part.spans,
        },
    });
    Ok(parts.collect())
}

/// The folder of the table that the state belongs to.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] when the log does not verify there.
pub fn table_folder(state: &impl SinkState) -> Result<Option<std::path::PathBuf>> {
    use std::os::unix::ffi::OsStringExt;
    let path = state.get(TABLE)?;
    Ok(path.map(|path| std::ffi::OsString::from_vec(path).into()))
}

pub(super) fn part_records(state: &impl SinkState, now: Now) -> Result<Vec<PartRecord>> {
    let mut records = Vec::new();
    for key in state.keys(PART.as_bytes()) {
        let name = key.get(PART.len()..).and_then(|name| std::str::from_utf8(name).ok());
        let Some(name) = name.and_then(PartName::parse) else {
            let key = String::from_utf8_lossy(&key);
            return Err(Error::damage(format!("the state has a key {key:?} that names no part file")));
        };
        let Some(value) = state.get(&key)? else { continue };
        let context = name.to_string();
        records.push(PartRecord::decode(name, &value, now).map_err(|error| error.context(context))?);
    }
    Ok(records)
}
