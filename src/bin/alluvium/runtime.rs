//! The asynchronous runtime of the program.

use std::future::Future;

use alluvium::Error;
use alluvium::doors::Doors;

/// Runs `future`, which hands its work to the pools of `doors`, to its end.
pub(crate) fn block_on<F: Future>(doors: &Doors, future: F) -> alluvium::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(doors.blocking_threads())
        .build()
        .map_err(|error| Error::fatal("the asynchronous runtime cannot be started").with_source(error))?;
    Ok(runtime.block_on(future))
}
