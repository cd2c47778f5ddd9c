//! The bytes of the two bare logs: one file, made of zeros and synced before, then records end to end.
//!
//! ```text
//!         0        4       8          16
//! record  | crc32  | bytes | sequence | bytes …
//! ```
//!
//! Integers are little-endian, the checksum covers all that follows it. A length of zero ends the log.
//! That is no log to trust (a zeroed page in the middle would end it early), only what a disk allows.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use crate::Result;
use crate::workload::Workload;

pub const HEADER_BYTES: usize = 16;

/// Room for everything that `workload` writes, and an end.
pub fn file_bytes(workload: &Workload) -> usize {
    let records = workload.work.writers() * workload.work.each();
    let records = usize::try_from(records).expect("what is written fits into memory");
    (records * (HEADER_BYTES + workload.size) + HEADER_BYTES).next_multiple_of(4096)
}

pub fn path(dir: &Path) -> PathBuf {
    dir.join("bare.log")
}

/// The header of a record.
pub fn header(sequence: u64, record: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let len = u32::try_from(record.len()).expect("a record is below 4 GiB");
    header[4..8].copy_from_slice(&len.to_le_bytes());
    header[8..].copy_from_slice(&sequence.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[4..]);
    hasher.update(record);
    header[..4].copy_from_slice(&hasher.finalize().to_le_bytes());
    header
}

/// Makes a file of `bytes` zeros, by writes of `step`: as large become the pieces that the page cache
/// holds.
pub fn make(dir: &Path, bytes: usize, step: usize) -> Result<File> {
    let mut file = File::options().read(true).write(true).create_new(true).open(path(dir))?;
    let zeros = vec![0; step];
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(step);
        file.write_all(&zeros[..piece])?;
        left -= piece;
    }
    file.sync_all()?;
    Ok(file)
}

pub fn replay(dir: &Path, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let file = std::fs::read(path(dir))?;
    let mut rest = &file[..];
    let mut sequence = 0;
    while let Some((found, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let len = u32::from_le_bytes([found[4], found[5], found[6], found[7]]);
        if len == 0 {
            break;
        }
        let record = behind.get(..usize::try_from(len)?).ok_or("a record ends behind the file")?;
        if header(sequence, record) != *found {
            return Err(format!("record {sequence} does not match its checksum").into());
        }
        each(record);
        rest = &behind[record.len()..];
        sequence += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_record_comes_back_and_a_damaged_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = make(dir.path(), 8192, 4096).unwrap();
        file.write_all_at(&[&header(0, b"first")[..], b"first"].concat(), 0).unwrap();
        let mut records = Vec::new();
        replay(dir.path(), &mut |record| records.push(record.to_vec())).unwrap();
        assert_eq!(records, [b"first".to_vec()]);
        file.write_all_at(b"F", 16).unwrap();
        assert!(replay(dir.path(), &mut |_| ()).is_err());
    }
}
