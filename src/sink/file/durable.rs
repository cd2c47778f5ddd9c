//! The syncs behind a barrier, off the writer's way.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::future::Shared;

use crate::error::Error;
use crate::error::Result;
use crate::pool::Pool;
use crate::sink::file::descriptors::PartFile;
use crate::sink::file::table::Table;

/// The syncs of all barriers so far, each waiting for the one before: a barrier is durable only when the
/// earlier ones are, and a failure is never overtaken by a later success (P7).
#[derive(Default)]
pub(super) struct Rounds {
    last: Option<Round>,
}

type Round = Shared<BoxFuture<'static, Result<(), Arc<Error>>>>;

/// A sync that was handed to the pool.
pub(super) type Syncing = BoxFuture<'static, Result<Result<()>>>;

/// Syncs and closes a file that is finished; it runs whether or not the future is polled.
pub(super) fn close(table: &Table, file: Arc<PartFile>) -> Syncing {
    table.doors.io.run(move || file.close()).boxed()
}

/// What is to be synced for a barrier.
pub(super) struct Grown {
    /// Syncs under way: the files that were finished.
    pub(super) closing: Vec<Syncing>,
    /// Files with new bytes.
    pub(super) files: Vec<Arc<PartFile>>,
    /// Files were made since the last barrier.
    pub(super) made: bool,
}

impl Rounds {
    /// Starts the syncs, all at once; the future resolves when they and all earlier ones are done.
    ///
    /// They run whether or not the future is polled.
    pub(super) fn start(&mut self, table: &Arc<Table>, grown: Grown) -> BoxFuture<'static, Result<()>> {
        let io: &Pool = &table.doors.io;
        let mut syncs = grown.closing;
        syncs.extend(grown.files.into_iter().map(|file| io.run(move || file.sync()).boxed()));
        if grown.made {
            let table = Arc::clone(table);
            let job = move || {
                let folder = &table.folders.staging;
                table.doors.disk.sync_dir(folder).map_err(|error| {
                    Error::retry(format!("folder {folder:?} cannot be made durable")).with_source(error)
                })
            };
            syncs.push(io.run(job).boxed());
        }
        let before = self.last.take();
        let round = async move {
            if let Some(before) = before {
                before.await?;
            }
            for sync in syncs {
                sync.await.flatten().map_err(Arc::new)?;
            }
            Ok(())
        };
        let round = round.boxed().shared();
        self.last = Some(round.clone());
        async move { round.await.map_err(failed) }.boxed()
    }

    /// Fails once a sync is known to have failed.
    pub(super) fn check(&self) -> Result<()> {
        match self.last.as_ref().and_then(Shared::peek) {
            Some(Err(error)) => Err(failed(Arc::clone(error))),
            _ => Ok(()),
        }
    }
}

fn failed(error: Arc<Error>) -> Error {
    Error::new(error.kind(), "what a barrier named could not be made durable").with_source(error)
}
