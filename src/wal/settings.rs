//! What can be set about a log.

use serde::Deserialize;
use serde::Serialize;

use super::WalError;

/// 64 MiB: a roll-over costs four syncs, some 0.5 ms, which then is noise; two spares are affordable.
const SEGMENT_BYTES: u64 = 64 << 20;
/// 64 KiB: small enough that tests roll over all the time.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// 4 GiB: positions in a segment are checked as 64 bits, lengths of frames are 32.
const SEGMENT_BYTES_MAX: u64 = 4 << 30;

/// Settings of a [`crate::wal::Wal`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WalSettings {
    /// Length of a segment file: a multiple of 4 KiB from 64 KiB to 4 GiB. Segments of another length that a
    /// log has from before stay readable.
    pub segment_bytes: u64,
    /// Most bytes that segments in use may take; an append beyond is [`WalError::Full`]. At least two
    /// segments. Two spare segments come on top.
    pub log_bytes_max: Option<u64>,
    /// Whether opening reads and verifies every segment, not only the newest. Without it, damage in
    /// an older segment is found when the segment is read.
    pub verify_all: bool,
}

impl Default for WalSettings {
    fn default() -> Self {
        Self { segment_bytes: SEGMENT_BYTES, log_bytes_max: None, verify_all: true }
    }
}

impl WalSettings {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`WalError::Settings`] names the setting and its bounds.
    pub fn validate(&self) -> Result<(), WalError> {
        let bytes = self.segment_bytes;
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(4096) {
            return Err(WalError::Settings {
                what: format!(
                    "segment_bytes is {bytes}, it must be a multiple of 4096 from {SEGMENT_BYTES_MIN} to \
                     {SEGMENT_BYTES_MAX}"
                ),
            });
        }
        match self.log_bytes_max {
            Some(max) if max < 2 * bytes => Err(WalError::Settings {
                what: format!("log_bytes_max is {max}, less than two segments of segment_bytes = {bytes}"),
            }),
            _ => Ok(()),
        }
    }
}
