//! Work that blocks or computes for long, kept off the async threads: a bounded pool, as an argument.
//!
//! In a simulation the same work runs inline and in one order, so that a run is a function of its
//! seed. A restart within the process joins the pool first ([`Pool::join`]): a job still in flight
//! would be a zombie that holds our own lock (P10).

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use tokio::sync::oneshot;
use tokio::sync::watch;

use crate::error::{Error, Result};

/// A bounded number of threads for blocking calls and long computations.
///
/// They are threads of its own rather than those of an asynchronous runtime: each keeps the memory of
/// its last job for the next one, and a runtime spreads jobs over ten times as many.
#[derive(Clone)]
pub struct Pool {
    threads: Option<Arc<Owner>>,
    width: u32,
}

type Job = Box<dyn FnOnce() + Send>;

/// Ends the threads when the last handle to the pool is dropped: jobs handed in are done first.
struct Owner(Arc<Shared>);

struct Shared {
    name: &'static str,
    width: usize,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Jobs handed in and not yet ended. It grows before [`Pool::run`] returns, so that
    /// [`Pool::join`] cannot overtake a job that has not started.
    unfinished: watch::Sender<usize>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a job to a thread that waits, or to a new one while there are fewer than `width`.
    fn push(self: &Arc<Self>, job: Job) -> Result<()> {
        let mut queue = self.lock();
        if queue.idle <= queue.jobs.len() && queue.threads < self.width {
            let shared = Arc::clone(self);
            #[expect(clippy::disallowed_methods, reason = "the door: the one place that starts threads")]
            let started = std::thread::Builder::new()
                .name(format!("{}-{}", self.name, queue.threads))
                .spawn(move || shared.work());
            match started {
                Ok(_detached) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    return Err(Error::retry("no thread can be started").with_source(error));
                }
                // The others do it.
                Err(_) => {}
            }
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.lock();
            } else if queue.closed {
                return;
            } else {
                queue.idle += 1;
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }
}

/// Counts a job as unfinished until it is dropped, also when the job panics.
struct Unfinished(watch::Sender<usize>);

impl Unfinished {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Pool {
    /// A pool that runs at most `width` jobs at a time on threads of its own, which are called `name`
    /// and started when there is work.
    pub fn threads(name: &'static str, width: usize) -> Self {
        let width = width.clamp(1, 512);
        let shared = Shared {
            name,
            width,
            queue: Mutex::default(),
            wake: Condvar::new(),
            unfinished: watch::Sender::new(0),
        };
        Self { threads: Some(Arc::new(Owner(Arc::new(shared)))), width: u32::try_from(width).unwrap_or(1) }
    }

    /// A pool that runs each job at once in the caller's thread: simulations and simple programs.
    pub fn inline() -> Self {
        Self { threads: None, width: 1 }
    }

    /// Whether jobs run in the caller's thread.
    pub fn is_inline(&self) -> bool {
        self.threads.is_none()
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
            Some(owner) => Err(Self::hand_in(&owner.0, job)),
        };
        async move {
            match started {
                Ok(result) => Ok(result),
                // The sender is dropped only with a job that was never done.
                Err(handed_in) => match handed_in?.await {
                    Ok(result) => result,
                    Err(_) => Err(Error::retry("a job was dropped")),
                },
            }
        }
    }

    fn hand_in<T, F>(shared: &Arc<Shared>, job: F) -> Result<oneshot::Receiver<Result<T>>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, receiver) = oneshot::channel();
        let unfinished = Unfinished::new(&shared.unfinished);
        shared.push(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(job)).map_err(|panic| panicked(&*panic));
            // Where nobody waits any more the result is dropped here, before the job counts as ended:
            // it may hold a file.
            drop(answer.send(result));
            drop(unfinished);
        }))?;
        Ok(receiver)
    }

    /// Waits until every job that was handed in so far has ended.
    pub async fn join(&self) {
        if let Some(owner) = &self.threads {
            let mut unfinished = owner.0.unfinished.subscribe();
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

/// The failure of a task that panicked with `panic`.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::retry(format!("a task panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn at_most_width_jobs_run_at_a_time_and_all_of_them_end() {
        let pool = Pool::threads("test", 3);
        let (now, most, done) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let jobs: Vec<_> = (0..200)
            .map(|_| {
                let (now, most, done) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&done));
                pool.run(move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        drop(jobs);
        block_on(pool.join());
        assert_eq!(done.load(Ordering::SeqCst), 200);
        assert!(most.load(Ordering::SeqCst) <= 3);
    }

    #[test]
    fn a_panic_is_an_error_of_who_asked_and_the_thread_goes_on() {
        let pool = Pool::threads("test", 1);
        let error = block_on(pool.run(|| panic!("broken"))).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Retry);
        assert!(error.to_string().contains("broken"), "{error}");
        assert_eq!(block_on(pool.run(|| 7)).unwrap(), 7);
    }

    #[test]
    fn jobs_handed_in_are_done_when_the_pool_is_gone() {
        let pool = Pool::threads("test", 1);
        let answers: Vec<_> = (0..20).map(|number| pool.run(move || number)).collect();
        drop(pool);
        for (number, answer) in answers.into_iter().enumerate() {
            assert_eq!(block_on(answer).unwrap(), number);
        }
    }

    #[test]
    fn what_a_job_answers_is_dropped_before_a_join_ends() {
        struct Held(Arc<AtomicUsize>);
        impl Drop for Held {
            fn drop(&mut self) {
                // Long enough for a join that does not wait for it.
                (0..1000).for_each(|_| std::thread::yield_now());
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let (pool, held) = (Pool::threads("test", 2), Arc::new(AtomicUsize::new(0)));
        let inside = Arc::clone(&held);
        drop(pool.run(move || {
            inside.fetch_add(1, Ordering::SeqCst);
            Held(inside)
        }));
        block_on(pool.join());
        assert_eq!(held.load(Ordering::SeqCst), 0);
    }
}
