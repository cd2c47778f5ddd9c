//! Work that blocks or computes for long, kept off the async threads: a bounded pool, as an argument.
//!
//! In a simulation the same work runs inline and in one order, so that a run is a function of its
//! seed. A restart within the process joins the pool first ([`Pool::join`]): a job still in flight
//! would be a zombie that holds our own lock (P10).

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::sync::watch;

use crate::error::{Error, Result};

/// A bounded number of threads for blocking calls and long computations.
#[derive(Clone)]
pub struct Pool {
    threads: Option<Threads>,
    width: u32,
}

#[derive(Clone)]
struct Threads {
    permits: Arc<Semaphore>,
    /// Jobs handed in and not yet ended. It grows before [`Pool::run`] returns, so that
    /// [`Pool::join`] cannot overtake a job that has not started.
    unfinished: watch::Sender<usize>,
}

/// Counts a job as unfinished until it is dropped, also when the job panics.
struct Unfinished(watch::Sender<usize>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Pool {
    /// A pool that runs at most `width` jobs at a time on threads of the tokio runtime.
    pub fn threads(width: usize) -> Self {
        let width = u32::try_from(width.clamp(1, 512)).unwrap_or(1);
        let permits = Arc::new(Semaphore::new(width as usize));
        Self { threads: Some(Threads { permits, unfinished: watch::Sender::new(0) }), width }
    }

    /// A pool that runs each job at once in the caller's thread: simulations and simple programs.
    pub fn inline() -> Self {
        Self { threads: None, width: 1 }
    }

    /// How many jobs run at a time.
    pub fn width(&self) -> usize {
        self.width as usize
    }

    /// Runs `job`; the future resolves to its result.
    ///
    /// The job starts when a thread is free, whether or not the future is polled.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Retry`] when the job panics: a panic is a failure of the task that asked.
    ///
    /// # Cancellation
    ///
    /// Dropping the future does not stop the job; [`Pool::join`] waits for it.
    pub fn run<T, F>(&self, job: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let started = match &self.threads {
            None => Ok(job()),
            Some(threads) => {
                threads.unfinished.send_modify(|count| *count += 1);
                let unfinished = Unfinished(threads.unfinished.clone());
                let permits = Arc::clone(&threads.permits);
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the door: the one place that hands work to threads"
                )]
                let handle = tokio::spawn(async move {
                    let permit = permits.acquire_owned().await;
                    tokio::task::spawn_blocking(move || {
                        let result = job();
                        drop((permit, unfinished));
                        result
                    })
                    .await
                });
                Err(handle)
            }
        };
        async move {
            match started {
                Ok(result) => Ok(result),
                Err(handle) => match handle.await {
                    Ok(Ok(result)) => Ok(result),
                    Ok(Err(failed)) | Err(failed) => Err(panicked(failed)),
                },
            }
        }
    }

    /// Waits until every job that was handed in so far has ended.
    pub async fn join(&self) {
        if let Some(threads) = &self.threads {
            let mut unfinished = threads.unfinished.subscribe();
            // The sender lives in `self`, so waiting cannot fail.
            let _ended = unfinished.wait_for(|count| *count == 0).await;
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads {
            Some(_) => write!(f, "Pool of {} threads", self.width),
            None => f.write_str("Pool, inline"),
        }
    }
}

pub(crate) fn panicked(failed: tokio::task::JoinError) -> Error {
    match failed.try_into_panic() {
        Ok(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            Error::retry(format!("a task panicked: {text}"))
        }
        Err(_) => Error::retry("a task was cancelled"),
    }
}
