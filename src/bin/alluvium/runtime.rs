//! The asynchronous runtime of the program.

use std::future::Future;

use alluvium::Error;

/// Runs `future` to its end.
pub(crate) fn block_on<F: Future>(future: F) -> alluvium::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::fatal("the asynchronous runtime cannot be started").with_source(error))?;
    Ok(runtime.block_on(future))
}
