//! What every [`Disk`] does while nothing crashes.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::Entry;
use crate::storage::Kind;
use crate::storage::OpenMode;

const NEW: OpenMode = OpenMode::CreateNew { private: true };

/// Checks `disk` in the empty folder `base`, an absolute path.
///
/// # Panics
///
/// When `disk` does not do what `storage::disk` says.
pub fn disk(disk: &dyn Disk, base: &Path) {
    assert!(disk.list(base).unwrap().is_empty(), "the folder is empty at the start");
    bytes_are_read_back(disk, base);
    a_file_is_opened_as_asked(disk, base);
    lengths_change(disk, base);
    a_map_shares_the_bytes_of_its_file(disk, base);
    folders_list_their_entries(disk, base);
    a_rename_never_replaces(disk, base);
    a_link_is_a_second_name(disk, base);
    a_removed_file_lives_on_in_its_handles(disk, base);
    a_lock_excludes_every_other(disk, base);
    paths_become_canonical(disk, base);
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Box<dyn DiskFile> {
    let file = disk.open(path, NEW).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    file
}

fn read(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    all(disk.open(path, OpenMode::Read).unwrap().as_ref())
}

fn all(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.size().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

#[track_caller]
fn refused<T>(result: std::io::Result<T>, kind: ErrorKind) {
    match result {
        Ok(_) => panic!("{kind:?} was expected, and it went well"),
        Err(error) => assert_eq!(error.kind(), kind, "{error}"),
    }
}

fn bytes_are_read_back(disk: &dyn Disk, base: &Path) {
    let path = base.join("bytes");
    let file = write(disk, &path, b"0123456789");
    file.write_at(4, b"four").unwrap();
    assert_eq!(all(file.as_ref()), b"0123four89");
    file.write_at(12, b"!").unwrap();
    assert_eq!(all(file.as_ref()), b"0123four89\0\0!", "a gap is zeros");
    file.write_at(2, b"").unwrap();
    file.write_at(100, b"").unwrap();
    assert_eq!(file.size().unwrap(), 13, "writing nothing changes nothing");
    let mut buf = [7; 8];
    assert_eq!(file.read_at(10, &mut buf).unwrap(), 3, "short only at the end of the file");
    assert_eq!(&buf[..3], b"\0\0!");
    assert_eq!(file.read_at(13, &mut buf).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut buf).unwrap(), 0);
    let large: Vec<u8> = (0..100_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    file.write_at(5, &large).unwrap();
    let reader = disk.open(&path, OpenMode::Read).unwrap();
    assert_eq!(all(reader.as_ref())[5..], large, "another handle sees the bytes at once");
}

fn a_file_is_opened_as_asked(disk: &dyn Disk, base: &Path) {
    let path = base.join("modes");
    refused(disk.open(&path, OpenMode::Read), ErrorKind::NotFound);
    refused(disk.open(&path, OpenMode::ReadWrite), ErrorKind::NotFound);
    refused(disk.open(&base.join("no folder/file"), NEW), ErrorKind::NotFound);
    drop(write(disk, &path, b"first"));
    refused(disk.open(&path, NEW), ErrorKind::AlreadyExists);
    refused(disk.open(&path, OpenMode::CreateNew { private: false }), ErrorKind::AlreadyExists);
    disk.open(&path, OpenMode::ReadWrite).unwrap().write_at(0, b"F").unwrap();
    assert_eq!(read(disk, &path), b"First");
    let reader = disk.open(&path, OpenMode::Read).unwrap();
    reader.write_at(0, b"f").unwrap_err();
    reader.set_len(1).unwrap_err();
    assert_eq!(read(disk, &path), b"First", "a file opened to read is not written");
    refused(disk.open(&path.join("below a file"), OpenMode::Read), ErrorKind::NotADirectory);
    refused(disk.open(base, OpenMode::Read), ErrorKind::IsADirectory);
    refused(disk.open(base, OpenMode::ReadWrite), ErrorKind::IsADirectory);
}

fn lengths_change(disk: &dyn Disk, base: &Path) {
    let file = write(disk, &base.join("lengths"), b"0123456789");
    file.set_len(4).unwrap();
    assert_eq!(all(file.as_ref()), b"0123");
    file.set_len(6).unwrap();
    assert_eq!(all(file.as_ref()), b"0123\0\0", "what was cut does not come back");
    match file.reserve(5000) {
        Ok(()) => {
            assert_eq!(file.size().unwrap(), 5000);
            assert_eq!(all(file.as_ref())[..8], *b"0123\0\0\0\0");
            file.reserve(10).unwrap();
            assert_eq!(file.size().unwrap(), 5000, "a reservation never cuts");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
    }
}

fn a_map_shares_the_bytes_of_its_file(disk: &dyn Disk, base: &Path) {
    let path = base.join("map");
    let file = write(disk, &path, b"head");
    refused(file.map(8192), ErrorKind::InvalidInput);
    match file.reserve(8192) {
        Ok(()) => {}
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            file.write_at(4, &vec![0; 8188]).unwrap();
        }
    }
    let map = file.map(8192).unwrap();
    assert_eq!(map.size(), 8192);
    map.write(4096, b"mapped").unwrap();
    file.write_at(8, b"written").unwrap();
    let mut buf = [0; 15];
    map.read(0, &mut buf).unwrap();
    assert_eq!(&buf, b"head\0\0\0\0written");
    assert_eq!(all(file.as_ref())[4096..4102], *b"mapped");
    map.write(8186, b"to end").unwrap();
    refused(map.write(8187, b"beyond"), ErrorKind::InvalidInput);
    refused(map.write(u64::MAX, b"beyond"), ErrorKind::InvalidInput);
    refused(map.read(8192, &mut buf), ErrorKind::InvalidInput);
    file.sync().unwrap();
    drop(file);
    map.write(0, b"H").unwrap();
    assert_eq!(read(disk, &path)[..4], *b"Head", "a map outlives its handle");
    assert_eq!(read(disk, &path)[8186..], *b"to end");
}

fn folders_list_their_entries(disk: &dyn Disk, base: &Path) {
    let folder = base.join("folder");
    refused(disk.list(&folder), ErrorKind::NotFound);
    refused(disk.metadata(&folder), ErrorKind::NotFound);
    refused(disk.sync_dir(&folder), ErrorKind::NotFound);
    refused(disk.create_dir(&folder.join("below"), false), ErrorKind::NotFound);
    disk.create_dir(&folder, true).unwrap();
    refused(disk.create_dir(&folder, true), ErrorKind::AlreadyExists);
    disk.create_dir(&folder.join("b"), false).unwrap();
    drop(write(disk, &folder.join("c"), b"sea"));
    drop(write(disk, &folder.join("a"), b""));
    let entry = |name: &str, kind| Entry { name: OsStr::new(name).to_owned(), kind };
    let expected = [entry("a", Kind::File), entry("b", Kind::Dir), entry("c", Kind::File)];
    assert_eq!(disk.list(&folder).unwrap(), expected, "sorted by name");
    assert_eq!(disk.metadata(&folder).unwrap().kind, Kind::Dir);
    let found = disk.metadata(&folder.join("c")).unwrap();
    assert_eq!((found.kind, found.len), (Kind::File, 3));
    disk.sync_dir(&folder).unwrap();
    disk.remove_dir(&folder).unwrap_err();
    disk.remove_file(&folder.join("a")).unwrap();
    disk.remove_file(&folder.join("c")).unwrap();
    refused(disk.remove_file(&folder.join("c")), ErrorKind::NotFound);
    disk.remove_file(&folder.join("b")).unwrap_err();
    disk.remove_dir(&folder.join("b")).unwrap();
    disk.remove_dir(&folder).unwrap();
    refused(disk.remove_dir(&folder), ErrorKind::NotFound);
}

fn a_rename_never_replaces(disk: &dyn Disk, base: &Path) {
    let folder = base.join("renames");
    disk.create_dir(&folder, false).unwrap();
    let (from, to) = (base.join("from"), folder.join("to"));
    refused(disk.rename(&from, &to), ErrorKind::NotFound);
    let file = write(disk, &from, b"one");
    let id = disk.metadata(&from).unwrap().id;
    refused(disk.rename(&from, &folder.join("no folder/to")), ErrorKind::NotFound);
    match disk.rename(&from, &to) {
        Ok(()) => {}
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(read(disk, &from), b"one", "a rename that is refused does nothing");
            return;
        }
    }
    refused(disk.metadata(&from), ErrorKind::NotFound);
    assert_eq!(read(disk, &to), b"one");
    assert_eq!(disk.metadata(&to).unwrap().id, id);
    file.write_at(0, b"One").unwrap();
    assert_eq!(read(disk, &to), b"One", "a handle follows its file");
    drop(write(disk, &from, b"two"));
    refused(disk.rename(&from, &to), ErrorKind::AlreadyExists);
    refused(disk.rename(&from, &folder), ErrorKind::AlreadyExists);
    refused(disk.rename(&from, &from), ErrorKind::AlreadyExists);
    assert_eq!((read(disk, &from), read(disk, &to)), (b"two".to_vec(), b"One".to_vec()));
    disk.sync_dir(base).unwrap();
    disk.sync_dir(&folder).unwrap();
}

fn a_link_is_a_second_name(disk: &dyn Disk, base: &Path) {
    let (first, second, other) = (base.join("first"), base.join("second"), base.join("other"));
    refused(disk.link(&first, &second), ErrorKind::NotFound);
    drop(write(disk, &first, b"same"));
    drop(write(disk, &other, b"other"));
    disk.link(&first, &second).unwrap();
    assert_eq!(disk.metadata(&first).unwrap().id, disk.metadata(&second).unwrap().id);
    assert_ne!(disk.metadata(&first).unwrap().id, disk.metadata(&other).unwrap().id);
    refused(disk.link(&first, &other), ErrorKind::AlreadyExists);
    refused(disk.link(&first, &second), ErrorKind::AlreadyExists);
    // A plain rename of one name of a file to another does nothing at all (POSIX): both would stay.
    if let Err(error) = disk.rename(&first, &second) {
        assert!(matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Unsupported));
    } else {
        panic!("a rename to another name of the same file says that it happened");
    }
    disk.remove_file(&first).unwrap();
    assert_eq!(read(disk, &second), b"same");
    assert_eq!(read(disk, &other), b"other");
}

fn a_removed_file_lives_on_in_its_handles(disk: &dyn Disk, base: &Path) {
    let path = base.join("removed");
    let file = write(disk, &path, b"old");
    disk.remove_file(&path).unwrap();
    let new = write(disk, &path, b"new");
    file.write_at(0, b"Old").unwrap();
    assert_eq!((all(file.as_ref()), all(new.as_ref())), (b"Old".to_vec(), b"new".to_vec()));
}

fn a_lock_excludes_every_other(disk: &dyn Disk, base: &Path) {
    let path = base.join("lock");
    let held = disk.lock(&path).unwrap().expect("the first one gets it");
    assert!(disk.lock(&path).unwrap().is_none(), "also of the same process");
    let other = disk.lock(&base.join("other lock")).unwrap().expect("another path is another lock");
    assert_eq!(disk.metadata(&path).unwrap().kind, Kind::File);
    drop(held);
    let again = disk.lock(&path).unwrap().expect("a lock ends with its value");
    assert_eq!(disk.metadata(&path).unwrap().len, 0);
    disk.remove_file(&path).unwrap();
    drop(again);
    let new = disk.lock(&path).unwrap().expect("a lock can be taken after its file was removed");
    assert!(disk.lock(&path).unwrap().is_none());
    drop((new, other));
}

fn paths_become_canonical(disk: &dyn Disk, base: &Path) {
    let path = base.join("canonical");
    refused(disk.canonicalize(&path), ErrorKind::NotFound);
    disk.create_dir(&path, false).unwrap();
    let plain = disk.canonicalize(&path).unwrap();
    assert!(plain.is_absolute());
    assert_eq!(disk.canonicalize(&path.join("./../canonical/.")).unwrap(), plain);
}
