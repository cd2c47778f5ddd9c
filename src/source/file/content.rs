//! The content of a file, whatever it is packed in: `.gz` and `.zst` by the ending of the name.
//!
//! Owns decompression and the way to a position: a plain file is entered there, a compressed one is
//! read again from its start and what lies before is thrown away. Gzip files of several members and
//! Zstandard files of several frames are one content. A compressed file that ends inside of a member
//! is cut short: an error, never an end.

use std::io;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use flate2::bufread::MultiGzDecoder;

use crate::source::file::error::FileError;
use crate::source::file::mark::Mark;
use crate::source::file::mark::Trail;
use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::OpenMode;

/// Read ahead of a decompressor.
const RAW_BYTES: usize = 128 << 10;
/// Thrown away at a time on the way to a position.
const SKIP_BYTES: usize = 256 << 10;

/// An open file at a position of its content.
#[derive(Debug)]
pub(super) struct Content {
    path: PathBuf,
    form: Form,
    position: u64,
    /// What the next read will say.
    held: Option<FileError>,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Got {
    /// Bytes read.
    pub(super) len: usize,
    /// The content ends here, for now.
    pub(super) end: bool,
}

enum Form {
    Plain(Box<dyn DiskFile>),
    /// A compressed file of no bytes at all, as `touch` makes it.
    Empty,
    Gz(Box<MultiGzDecoder<BufReader<Raw>>>),
    Zst(Box<zstd::stream::read::Decoder<'static, BufReader<Raw>>>),
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Empty => "Empty",
            Self::Gz(_) => "Gz",
            Self::Zst(_) => "Zst",
        })
    }
}

/// Whether a file of this name is decompressed.
pub(super) fn is_compressed(path: &str) -> bool {
    path.ends_with(".gz") || path.ends_with(".zst")
}

impl Content {
    /// Opens `path` at its start; a message speaks of `position`, where its reader is to go on.
    pub(super) fn open(disk: &dyn Disk, path: &Path, position: u64) -> Result<Self, FileError> {
        let failed = |error| FileError::reading(path.to_owned(), position, error);
        let file = disk.open(path, OpenMode::Read).map_err(failed)?;
        let name = path.to_string_lossy();
        let form = if !is_compressed(&name) {
            Form::Plain(file)
        } else if file.size().map_err(failed)? == 0 {
            Form::Empty
        } else {
            let raw = BufReader::with_capacity(RAW_BYTES, Raw { file, at: 0, failed: false });
            if name.ends_with(".gz") {
                Form::Gz(Box::new(MultiGzDecoder::new(raw)))
            } else {
                Form::Zst(Box::new(zstd::stream::read::Decoder::with_buffer(raw).map_err(failed)?))
            }
        };
        Ok(Self { path: path.to_owned(), form, position: 0, held: None })
    }

    /// Fills `buf` as far as the content goes: less than asked only at its end, for now, or in front of
    /// something unreadable, which the next call then tells.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Result<Got, FileError> {
        if let Some(held) = self.held.take() {
            return Err(held);
        }
        let asked = buf.len();
        let (len, failed) = match &mut self.form {
            Form::Plain(file) => match file.read_at(self.position, buf) {
                Ok(len) => (len, None),
                Err(error) => (0, Some(error)),
            },
            Form::Empty => (0, None),
            Form::Gz(decoder) => fill(decoder, buf),
            Form::Zst(decoder) => fill(decoder, buf),
        };
        self.position += len as u64;
        match failed.map(|error| self.read_failed(error)) {
            Some(error) if len == 0 => Err(error),
            Some(error) => {
                self.held = Some(error);
                Ok(Got { len, end: false })
            }
            None => Ok(Got { len, end: len < asked }),
        }
    }

    /// Goes on to the position of `mark`, and proves that the bytes before it are those of the mark.
    ///
    /// The content must be at its start.
    pub(super) fn go_to(&mut self, mark: &Mark) -> Result<Trail, FileError> {
        let trail = match &self.form {
            Form::Plain(file) => {
                let size = file.size().map_err(|error| self.read_failed(error))?;
                if size < mark.position {
                    return Err(self.shrank(mark, size));
                }
                let len = mark.sample_len();
                let mut head = vec![0; len];
                let mut tail = vec![0; len];
                let heads = file.read_at(0, &mut head).map_err(|error| self.read_failed(error))?;
                let tails = file
                    .read_at(mark.position - len as u64, &mut tail)
                    .map_err(|error| self.read_failed(error))?;
                if heads < len || tails < len {
                    return Err(self.shrank(mark, size));
                }
                self.position = mark.position;
                Trail::resumed(mark.position, head, tail)
            }
            Form::Empty | Form::Gz(_) | Form::Zst(_) => {
                let mut trail = Trail::default();
                let mut buf = vec![0; SKIP_BYTES];
                while trail.position() < mark.position {
                    let left = mark.position - trail.position();
                    let want = usize::try_from(left).map_or(SKIP_BYTES, |left| left.min(SKIP_BYTES));
                    let (space, _) = buf.split_at_mut(want);
                    let got = self.read(space)?;
                    let (passed, _) = buf.split_at(got.len);
                    trail.pass(passed);
                    if got.end && trail.position() < mark.position {
                        return Err(self.shrank(mark, trail.position()));
                    }
                }
                trail
            }
        };
        if trail.mark() == *mark {
            Ok(trail)
        } else {
            Err(FileError::Replaced { path: self.path.clone(), position: mark.position })
        }
    }

    /// Whether the file still has at least the bytes read so far and ends them with `tail`.
    ///
    /// Only of a plain file: a compressed one that grew is opened anew.
    pub(super) fn still_ends_with(&self, tail: &[u8]) -> Result<(), FileError> {
        let Form::Plain(file) = &self.form else { return Ok(()) };
        let mark = Mark { position: self.position, ..Mark::default() };
        let size = file.size().map_err(|error| self.read_failed(error))?;
        if size < self.position {
            return Err(self.shrank(&mark, size));
        }
        let mut found = vec![0; tail.len()];
        let from = self.position.saturating_sub(tail.len() as u64);
        let got = file.read_at(from, &mut found).map_err(|error| self.read_failed(error))?;
        if got == found.len() && found == tail {
            return Ok(());
        }
        Err(FileError::Replaced { path: self.path.clone(), position: self.position })
    }

    /// Whether there is a decompressor in between.
    pub(super) fn is_compressed(&self) -> bool {
        !matches!(self.form, Form::Plain(_))
    }

    /// Bytes of the file read so far: what its length is compared with.
    pub(super) fn raw_position(&self) -> u64 {
        match &self.form {
            Form::Plain(_) => self.position,
            Form::Empty => 0,
            Form::Gz(decoder) => decoder.get_ref().get_ref().at,
            Form::Zst(decoder) => decoder.get_ref().get_ref().at,
        }
    }

    /// How many bytes a read from here should ask for, at most `most`: for a plain file one more than
    /// there are, so that one read also finds the end.
    pub(super) fn expected(&self, most: usize) -> Result<usize, FileError> {
        let Form::Plain(file) = &self.form else { return Ok(most) };
        let size = file.size().map_err(|error| self.read_failed(error))?;
        let left = size.saturating_sub(self.position).saturating_add(1);
        Ok(usize::try_from(left).map_or(most, |left| left.min(most)))
    }

    fn shrank(&self, mark: &Mark, found: u64) -> FileError {
        FileError::Shrank { path: self.path.clone(), position: mark.position, found }
    }

    /// A decompressor speaks of damage in several ways; what the disk said is noted beside.
    fn read_failed(&self, error: io::Error) -> FileError {
        let raw = match &self.form {
            Form::Plain(_) | Form::Empty => None,
            Form::Gz(decoder) => Some(decoder.get_ref().get_ref()),
            Form::Zst(decoder) => Some(decoder.get_ref().get_ref()),
        };
        let (path, position) = (self.path.clone(), self.position);
        match raw {
            Some(raw) if !raw.failed && error.kind() == io::ErrorKind::UnexpectedEof => {
                FileError::CutShort { path, position }
            }
            Some(raw) if !raw.failed => FileError::Corrupt { path, position, source: error },
            _ => FileError::reading(path, position, error),
        }
    }
}

/// A file as a stream of its bytes.
struct Raw {
    file: Box<dyn DiskFile>,
    at: u64,
    failed: bool,
}

impl Read for Raw {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.file.read_at(self.at, buf) {
            Ok(got) => {
                self.at += got as u64;
                Ok(got)
            }
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }
}

/// Reads until `buf` is full, the content ends or something fails; also how far it came.
fn fill(from: &mut impl Read, buf: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut done = 0;
    while let Some(space) = buf.get_mut(done..).filter(|space| !space.is_empty()) {
        match from.read(space) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}
