//! Claims about memory and descriptors with many buckets.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::*;
use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::DiskLock;
use crate::storage::Entry;
use crate::storage::FileSystem;
use crate::storage::Metadata;
use crate::storage::OpenMode;
use crate::storage::Region;

/// Counts the open descriptors of part files, and the most there were.
#[derive(Debug)]
struct CountingDisk {
    disk: CrashDisk,
    open: Arc<Counts>,
    /// A folder on a file system of its own.
    mounted: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Counts {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[derive(Debug)]
struct CountedFile {
    file: Box<dyn DiskFile>,
    open: Arc<Counts>,
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        self.open.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Disk for CountingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.open(path, mode)?;
        let now = self.open.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.most.fetch_max(now, Ordering::Relaxed);
        Ok(Box::new(CountedFile { file, open: Arc::clone(&self.open) }))
    }
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let mut found = self.disk.metadata(path)?;
        if self.mounted.as_ref().is_some_and(|mounted| path.starts_with(mounted)) {
            found.id.0 += 1;
        }
        Ok(found)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(path)
    }
    fn create_dir(&self, path: &Path, private: bool) -> io::Result<()> {
        self.disk.create_dir(path, private)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.disk.lock(path)
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.canonicalize(path)
    }
    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.disk.file_system(path)
    }
}

impl DiskFile for CountedFile {
    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn map(&self, len: u64) -> io::Result<Box<dyn Region>> {
        self.file.map(len)
    }
}

#[tokio::test(start_paused = true)]
async fn many_buckets_keep_to_the_limits_and_get_one_file_each() {
    // C13, a tenth of it: 20,000 rows over 500 buckets.
    let disk = disk();
    let open = Arc::new(Counts::default());
    let counting = CountingDisk { disk: disk.clone(), open: Arc::clone(&open), mounted: None };
    let doors = Doors { disk: Arc::new(counting), ..doors(&disk) };
    let limited = FileSinkSettings {
        format: PartFormat::Parquet(ParquetSettings { row_group_rows: 25, ..ParquetSettings::default() }),
        memory_bytes: 1 << 20,
        descriptors_max: 8,
        ..settings()
    };
    let mut kept = Kept::default();
    let mut run = kept.start(&limited, &by_bucket(), &doors).await.unwrap();
    let mut most_bytes = 0;
    while run.position < 20_000 {
        run.write(500, |id| format!("b{}", id * 7919 % 500)).await.unwrap();
        most_bytes = most_bytes.max(run.writer.buffered_bytes + run.writer.encoding_bytes);
        if run.position.is_multiple_of(5_000) {
            run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        }
    }
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 500);
    let most_open = open.most.load(Ordering::Relaxed);
    assert!(most_open <= 8, "{most_open} open");
    assert!(most_bytes <= 1 << 20, "{most_bytes} bytes");
    assert_eq!(all_landed(&disk), (0..20_000).collect());
    assert_eq!(visible(&disk).len(), 500);
    check_ledger(&disk, &run.writer);
    // Row groups are as full as without a limit.
    let bytes = Bytes::from(disk.read_file(&visible(&disk)[0]).unwrap());
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert!(groups == [25, 15] || groups == [23, 17] || groups == [24, 16], "{groups:?}");
}

#[tokio::test(start_paused = true)]
async fn a_table_on_another_file_system_than_its_parent_is_refused_at_the_start() {
    for mounted in ["/out/t", "/out/.t.alluvium"] {
        let disk = disk();
        disk.make_dirs(mounted).unwrap();
        let mounting =
            CountingDisk { disk: disk.clone(), open: Arc::default(), mounted: Some(mounted.into()) };
        let doors = Doors { disk: Arc::new(mounting), ..doors(&disk) };
        let error = Kept::default().start(&settings(), &by_bucket(), &doors).await.err().unwrap();
        assert_eq!(error.kind(), crate::ErrorKind::Usage);
        assert!(error.to_string().contains("another file system"), "{error}");
        assert_eq!(disk.step_count(), 0);
    }
}

#[tokio::test]
async fn rows_land_on_a_real_disk_with_real_threads() {
    let folder = tempfile::tempdir().unwrap();
    let real = Doors::real();
    let real_settings = FileSinkSettings {
        format: PartFormat::Parquet(ParquetSettings { row_group_rows: 1_000, ..ParquetSettings::default() }),
        ..FileSinkSettings { path: folder.path().join("out/t"), ..settings() }
    };
    let mut kept = Kept::default();
    for _ in 0..3 {
        let mut run = kept.start(&real_settings, &by_bucket(), &real).await.unwrap();
        for _ in 0..4 {
            run.write(1_700, |id| format!("b{}", id % 5)).await.unwrap();
            run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        }
        run.write(1_700, |id| format!("b{}", id % 5)).await.unwrap();
    }
    let mut run = kept.start(&real_settings, &by_bucket(), &real).await.unwrap();
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 5);
    let mut rows = 0;
    for part in ledger(&run.writer.state) {
        let part = part.unwrap();
        let path = part.bucket.folder(&real_settings.path).join(part.name.to_string());
        let crc = checksum(&*real.disk, &path, part.content.len).unwrap();
        assert_eq!(crc, Some(part.content.crc));
        rows += part.content.rows;
    }
    assert_eq!(rows, run.position);
    run.writer.tidy().await.unwrap();
    let left = real.disk.list(&folder.path().join("out")).unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
#[ignore = "a measurement at full size: prints seconds and memory"]
#[expect(clippy::disallowed_methods, reason = "a measurement")]
async fn five_thousand_buckets_take_their_time() {
    // C13
    let folder = tempfile::tempdir().unwrap();
    let real = Doors::real();
    let settings = FileSinkSettings {
        format: PartFormat::default(),
        ..FileSinkSettings { path: folder.path().join("out/t"), ..settings() }
    };
    let mut kept = Kept::default();
    let start = std::time::Instant::now();
    let mut run = kept.start(&settings, &by_bucket(), &real).await.unwrap();
    let mut most_bytes = 0;
    while run.position < 200_000 {
        run.write(8_000, |id| format!("b{}", id * 7919 % 5_000)).await.unwrap();
        most_bytes = most_bytes.max(run.writer.stats().buffered_bytes);
        if run.position.is_multiple_of(40_000) {
            run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        }
    }
    println!("written {:?}, {most_bytes} bytes at most", start.elapsed());
    let (snapshot, closed) = run.pre_commit(BarrierKind::End).await.unwrap();
    assert_eq!(closed, 5_000);
    println!("durable {:?}", start.elapsed());
    run.complete(&mut kept, snapshot);
    run.commit(&mut kept).await.unwrap();
    println!("committed {:?}", start.elapsed());
    let rss = String::from_utf8(std::fs::read("/proc/self/status").unwrap()).unwrap();
    println!("{}", rss.lines().filter(|line| line.contains("VmHWM")).collect::<String>());
}
