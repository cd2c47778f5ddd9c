//! Which file systems can be trusted with what.

use rustix::fs::FsWord;

/// What a file system is good for, as [`crate::storage::Disk::file_system`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Its usual name, or "unknown".
    pub name: &'static str,
    /// Whether a store through a map of reserved space can neither fail nor be lost: no SIGBUS for
    /// want of space, and [`crate::storage::DiskFile::sync`] covers it. Elsewhere write.
    pub maps: bool,
    /// Whether other machines may write to it. Locks then need not exclude them and a file that is
    /// open need not stay: no place for the state of a job.
    pub network: bool,
}

impl FileSystem {
    /// The file system with the magic number `magic` of `statfs`.
    pub(super) fn of_magic(magic: FsWord) -> Self {
        // All of them have 32 bits; some come with their sign in the upper half.
        let magic = magic as u64 & 0xffff_ffff;
        KNOWN.iter().find(|(known, _)| *known == magic).map_or(UNKNOWN, |(_, found)| *found)
    }
}

const UNKNOWN: FileSystem = local("unknown", false);

/// From `linux/magic.h` and the sources of those that are not in it.
///
/// XFS (unless made without reflinks, which cannot be seen from outside cheaply), Btrfs, ZFS and
/// bcachefs copy on write: a reservation does not hold for a file that shares its blocks.
const KNOWN: &[(u64, FileSystem)] = &[
    (0xef53, local("ext4", true)),
    (0x0102_1994, local("tmpfs", true)),
    (0x5846_5342, local("xfs", false)),
    (0x9123_683e, local("btrfs", false)),
    (0x2fc1_2fc1, local("zfs", false)),
    (0xca45_1a4e, local("bcachefs", false)),
    (0xf2f5_2010, local("f2fs", false)),
    (0x794c_7630, local("overlayfs", false)),
    (0x6573_5546, local("fuse", false)),
    (0x6969, network("nfs")),
    (0x517b, network("smb")),
    (0xff53_4d42, network("cifs")),
    (0xfe53_4d42, network("smb2")),
    (0x0102_1997, network("9p")),
    (0x00c3_6400, network("ceph")),
    (0x5346_414f, network("afs")),
    (0x0bd0_0bd0, network("lustre")),
    (0x0116_1970, network("gfs2")),
    (0x7461_636f, network("ocfs2")),
];

const fn local(name: &'static str, maps: bool) -> FileSystem {
    FileSystem { name, maps, network: false }
}

const fn network(name: &'static str) -> FileSystem {
    FileSystem { name, maps: false, network: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_come_sign_extended_are_known() {
        assert_eq!(FileSystem::of_magic(FsWord::from(0xff53_4d42_u32.cast_signed())), network("cifs"));
        assert_eq!(FileSystem::of_magic(0xff53_4d42), network("cifs"));
        assert_eq!(FileSystem::of_magic(0xef53).name, "ext4");
        assert_eq!(FileSystem::of_magic(1), UNKNOWN);
    }
}
