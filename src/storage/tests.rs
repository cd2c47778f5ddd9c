#![expect(clippy::disallowed_methods, reason = "tests of the door look at the machine behind it")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::testing::contract;

const NEW: OpenMode = OpenMode::CreateNew { private: false };

/// A temporary folder by its canonical path.
fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(folder.path()).unwrap();
    (folder, path)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_machine_keeps_the_contract_of_disks() {
    let (_guard, base) = folder();
    contract::disk(&RealDisk::new(), &base);
}

#[test]
fn private_files_and_folders_are_for_their_owner_only() {
    let (_guard, base) = folder();
    let disk = RealDisk::new();
    disk.create_dir(&base.join("private"), true).unwrap();
    disk.create_dir(&base.join("shared"), false).unwrap();
    drop(disk.open(&base.join("private/file"), OpenMode::CreateNew { private: true }).unwrap());
    drop(disk.open(&base.join("shared/file"), NEW).unwrap());
    drop(disk.lock(&base.join("lock")).unwrap());
    let modes = ["private", "private/file", "lock"].map(|name| mode(&base.join(name)));
    assert_eq!(modes, [0o700, 0o600, 0o600]);
    assert_eq!(mode(&base.join("shared")) & 0o700, 0o700);
    assert_eq!(mode(&base.join("shared/file")) & 0o700, 0o600);
}

#[test]
fn no_call_that_changes_something_goes_through_a_symbolic_link() {
    let (_guard, base) = folder();
    let disk = RealDisk::new();
    let (inside, outside) = (base.join("inside"), base.join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::create_dir(outside.join("dir")).unwrap();
    fs::write(outside.join("file"), "theirs").unwrap();
    fs::write(inside.join("file"), "ours").unwrap();
    symlink(&outside, inside.join("link")).unwrap();
    symlink(outside.join("file"), inside.join("name")).unwrap();
    symlink(outside.join("absent"), inside.join("dangling")).unwrap();
    let (link, file) = (inside.join("link"), inside.join("file"));

    let refused = [
        disk.open(&link.join("new"), NEW).map(drop),
        disk.open(&link.join("file"), OpenMode::ReadWrite).map(drop),
        disk.open(&inside.join("name"), OpenMode::ReadWrite).map(drop),
        disk.lock(&link.join("lock")).map(drop),
        disk.lock(&inside.join("dangling")).map(drop),
        disk.create_dir(&link.join("new"), false),
        disk.sync_dir(&link),
        disk.sync_dir(&link.join("dir")),
        disk.rename(&file, &link.join("new")),
        disk.rename(&link.join("file"), &inside.join("new")),
        disk.link(&file, &link.join("new")),
        disk.link(&link.join("file"), &inside.join("new")),
        disk.remove_file(&link.join("file")),
        disk.remove_dir(&link.join("dir")),
    ];
    for (number, result) in refused.into_iter().enumerate() {
        let error = result.expect_err(&format!("call {number} went through a link"));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "call {number}: {error}");
    }
    let taken = [
        disk.open(&inside.join("dangling"), NEW).map(drop),
        disk.rename(&file, &inside.join("dangling")),
        disk.link(&file, &inside.join("dangling")),
    ];
    for result in taken {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    let names: Vec<_> = disk.list(&outside).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["dir", "file"]);
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "theirs");
}

#[test]
fn calls_that_only_look_follow_symbolic_links() {
    let (_guard, base) = folder();
    let disk = RealDisk::new();
    fs::create_dir(base.join("dir")).unwrap();
    fs::write(base.join("dir/file"), "bytes").unwrap();
    symlink(base.join("dir"), base.join("link")).unwrap();
    let file = disk.open(&base.join("link/file"), OpenMode::Read).unwrap();
    assert_eq!(file.size().unwrap(), 5);
    assert_eq!(disk.metadata(&base.join("link")).unwrap().kind, Kind::Dir);
    assert_eq!(disk.canonicalize(&base.join("link/file")).unwrap(), base.join("dir/file"));
    let entries = disk.list(&base.join("link/..")).unwrap();
    assert_eq!(entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::Dir, Kind::Other]);
    disk.remove_file(&base.join("link")).unwrap();
    assert!(base.join("dir/file").exists(), "a link is removed, not what it leads to");
}

#[test]
fn pipes_and_devices_are_refused_without_waiting_for_their_other_end() {
    let (_guard, base) = folder();
    let disk = RealDisk::new();
    let pipe = base.join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        assert_eq!(disk.open(&pipe, mode).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(disk.lock(&pipe).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(
        disk.open(Path::new("/dev/zero"), OpenMode::Read).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn a_handle_tells_the_identity_of_what_it_has_open() {
    let (_guard, base) = folder();
    let disk = RealDisk::new();
    let path = base.join("file");
    let old = disk.open(&path, NEW).unwrap();
    assert_eq!(old.metadata().unwrap().id, disk.metadata(&path).unwrap().id);
    fs::write(base.join("new"), "bytes").unwrap();
    fs::rename(base.join("new"), &path).unwrap();
    assert_ne!(old.metadata().unwrap().id, disk.metadata(&path).unwrap().id);
    assert_eq!(old.metadata().unwrap().len, 0);
}

#[test]
fn a_lock_whose_file_is_removed_by_its_holders_is_held_by_one_at_a_time() {
    let (_guard, base) = folder();
    let path = base.join("lock");
    let holders = std::sync::atomic::AtomicU32::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let disk = RealDisk::new();
                for _ in 0..300 {
                    let Some(held) = disk.lock(&path).unwrap() else { continue };
                    assert_eq!(holders.fetch_add(1, order), 0, "two hold the lock");
                    std::thread::yield_now();
                    holders.fetch_sub(1, order);
                    disk.remove_file(&path).unwrap();
                    drop(held);
                }
            });
        }
    });
}

#[test]
fn a_relative_path_starts_at_the_working_folder() {
    let disk = RealDisk::new();
    assert_eq!(disk.metadata(Path::new("Cargo.toml")).unwrap().kind, Kind::File);
    disk.sync_dir(Path::new("")).unwrap();
    let error = disk.open(Path::new("Cargo.toml"), NEW).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.remove_file(Path::new("/")).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(disk.remove_file(Path::new("src/..")).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_rename_to_another_file_system_is_an_error_of_its_own() {
    let (_guard, base) = folder();
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
    if fs::metadata(elsewhere.path()).unwrap().dev() == fs::metadata(&base).unwrap().dev() {
        return;
    }
    let disk = RealDisk::new();
    fs::write(base.join("file"), "bytes").unwrap();
    let to = elsewhere.path().join("file");
    assert_eq!(disk.rename(&base.join("file"), &to).unwrap_err().kind(), ErrorKind::CrossesDevices);
    assert_eq!(disk.link(&base.join("file"), &to).unwrap_err().kind(), ErrorKind::CrossesDevices);
    let found = disk.file_system(elsewhere.path()).unwrap();
    assert_eq!((found.name, found.maps, found.network), ("tmpfs", true, false));
}

#[test]
fn space_that_cannot_be_had_is_a_clean_error() {
    let (_guard, base) = folder();
    let file = RealDisk::new().open(&base.join("file"), NEW).unwrap();
    file.reserve(0).unwrap();
    let error = file.reserve(1 << 46).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::FileTooLarge), "{error}");
}
