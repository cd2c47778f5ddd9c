//! The asynchronous runtime of the program.

use std::future::Future;

use alluvium::Error;

/// Runs `future` to its end.
pub(crate) fn block_on<F: Future>(future: F) -> alluvium::Result<F::Output> {
    // The pools do the long work; tasks only hand it out, so half the processors are plenty. Fewer threads
    // also keep less freed memory each.
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.div_ceil(2))
        .enable_all()
        .build()
        .map_err(|error| Error::fatal("the asynchronous runtime cannot be started").with_source(error))?;
    Ok(runtime.block_on(future))
}
