//! A writer that counts from a place within the file instead of from 0.
//!
//! Everything in a Parquet file is addressed by its offset, and the library's writer counts the
//! bytes that pass through it. To start at an offset, that many bytes are written to nowhere first:
//! as many slices over one and the same block, which costs nothing that anyone would measure.

use std::io;
use std::io::IoSlice;
use std::io::Write;

use parquet::file::writer::TrackedWrite;

use crate::error::Error;
use crate::error::Result;

/// Writes to a borrowed buffer, or to nowhere while it skips.
pub(super) type Placed<'a> = TrackedWrite<&'a mut (dyn Write + Send)>;

/// One block of what is skipped.
static BLOCK: [u8; 64 << 10] = [0; 64 << 10];

/// Blocks in one call: 64 MiB.
const BLOCKS: usize = 1024;

/// A writer into `out` that counts its first byte as byte `offset` of the file.
///
/// # Errors
///
/// [`crate::ErrorKind::Fatal`] if the offset is beyond this machine's addresses.
pub(super) fn placed<'a>(nowhere: &'a mut io::Sink, out: &'a mut Vec<u8>, offset: u64) -> Result<Placed<'a>> {
    let offset = usize::try_from(offset)
        .map_err(|_| Error::fatal(format!("offset {offset} is beyond what this machine can address")))?;
    let mut writer = TrackedWrite::new(nowhere as &mut (dyn Write + Send));
    skip(&mut writer, offset)
        .map_err(|error| Error::fatal("cannot skip to the offset").with_source(error))?;
    *writer.inner_mut() = out;
    Ok(writer)
}

fn skip(writer: &mut Placed<'_>, to: usize) -> io::Result<()> {
    let blocks = [IoSlice::new(&BLOCK); BLOCKS];
    loop {
        let left = to - writer.bytes_written();
        let whole = (left / BLOCK.len()).min(BLOCKS);
        if whole == 0 {
            writer.write_all(&BLOCK[..left])?;
            // Nothing of this may reach the real output behind the library's own buffer.
            return writer.flush();
        }
        // What a call takes may be less than it is given; the count says how much.
        let taken = writer.write_vectored(&blocks[..whole])?;
        if taken == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_counts_as_the_offset() {
        for offset in [0, 1, 4, 8191, 8192, 65_536, 65_537, (64 << 20) - 1, (64 << 20) + 1, 300 << 30] {
            let (mut nowhere, mut out) = (io::sink(), Vec::new());
            let mut writer = placed(&mut nowhere, &mut out, offset).unwrap();
            assert_eq!(writer.bytes_written() as u64, offset);
            writer.write_all(b"row group").unwrap();
            assert_eq!(writer.bytes_written() as u64, offset + 9);
            drop(writer);
            assert_eq!(out, b"row group");
        }
    }
}
