//! Channels between tasks, bounded in bytes: a slow sink holds its source back, not the memory.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Result;
use crate::runtime::align::Aligner;
use crate::stream::Barrier;
use crate::stream::Batch;
use crate::stream::Element;

/// Makes a channel that holds at most `bytes_max` bytes of batches; a larger batch passes alone.
pub(crate) fn channel(bytes_max: usize) -> (Sender, Receiver) {
    let bytes_max = u32::try_from(bytes_max.max(1)).unwrap_or(u32::MAX).min(Semaphore::MAX_PERMITS as u32);
    let (elements, received) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(bytes_max as usize));
    (Sender { elements, room, bytes_max }, Receiver { received })
}

/// The sending side.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    elements: mpsc::UnboundedSender<Sent>,
    room: Arc<Semaphore>,
    bytes_max: u32,
}

/// An element and the room it takes in the channel until the receiver drops it.
#[derive(Debug)]
struct Sent {
    element: Element,
    room: Option<OwnedSemaphorePermit>,
}

impl Sender {
    /// Sends `batch`, waiting for room.
    ///
    /// # Cancellation
    ///
    /// Dropping the future before it completes drops the batch: the caller's task must fail then.
    pub(crate) async fn send(&self, batch: Batch) -> Result<()> {
        let bytes = u32::try_from(batch.bytes()).unwrap_or(u32::MAX).clamp(1, self.bytes_max);
        let room = Arc::clone(&self.room)
            .acquire_many_owned(bytes)
            .await
            .map_err(|_closed| gone("receiving task"))?;
        self.push(Element::Batch(batch), Some(room))
    }

    /// Sends `barrier` behind everything sent before; it needs no room.
    pub(crate) fn send_barrier(&self, barrier: Barrier) -> Result<()> {
        self.push(Element::Barrier(barrier), None)
    }

    fn push(&self, element: Element, room: Option<OwnedSemaphorePermit>) -> Result<()> {
        self.elements.send(Sent { element, room }).map_err(|_closed| gone("receiving task"))
    }
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct Receiver {
    received: mpsc::UnboundedReceiver<Sent>,
}

impl Receiver {
    /// The next element and the room it takes, to be dropped when it is dealt with; `None` once all
    /// senders are gone and everything was received.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn recv(&mut self) -> Option<(Element, Option<OwnedSemaphorePermit>)> {
        let sent = self.received.recv().await?;
        Some((sent.element, sent.room))
    }
}

/// The other end of a channel is gone: the consequence of a failure or an end elsewhere.
#[derive(Debug, thiserror::Error)]
#[error("its own failure tells why")]
struct Gone;

/// The error of a task that finds the task `who` gone.
pub(crate) fn gone(who: &str) -> Error {
    Error::retry(format!("the {who} has ended")).with_source(Gone)
}

/// The error of a driver whose task ended well before the job did: its input was gone, and so was the task
/// in front of it.
pub(crate) fn ended_early() -> Error {
    Error::retry("a task of the job ended before the job did").with_source(Gone)
}

/// Of two errors of one attempt the one that is told: what failed before what only noticed it, and what
/// another attempt cannot mend before what it may. Of equals the first.
pub(crate) fn weightier(first: Error, second: Error) -> Error {
    let weight = |error: &Error| match error.kind() {
        ErrorKind::Retry if is_consequence(error) => 0,
        ErrorKind::Retry => 1,
        _ => 2,
    };
    if weight(&second) > weight(&first) { second } else { first }
}

/// Whether `error` is only the consequence of another task's end.
pub(crate) fn is_consequence(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Gone>())
}

/// The inputs of a task as one: barriers come out once they have come on all of them.
#[derive(Debug)]
pub(crate) struct Inputs {
    receivers: Vec<Receiver>,
    closed: Vec<bool>,
    aligner: Aligner,
    /// The input that is asked first next time, so that none starves.
    first: usize,
}

impl Inputs {
    /// Joins `receivers`; `exactly_once` holds back what is ahead of a barrier.
    pub(crate) fn new(receivers: Vec<Receiver>, exactly_once: bool) -> Self {
        let count = receivers.len();
        Self { receivers, closed: vec![false; count], aligner: Aligner::new(count, exactly_once), first: 0 }
    }

    /// The next element, as [`Receiver::recv`]; `None` once every input is closed.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn recv(&mut self) -> Result<Option<(Element, Option<OwnedSemaphorePermit>)>> {
        loop {
            let (count, first) = (self.receivers.len(), self.first);
            let (closed, aligner) = (&self.closed, &self.aligner);
            let mut open: Vec<_> = self
                .receivers
                .iter_mut()
                .enumerate()
                .filter(|(input, _)| !closed[*input] && !aligner.is_held(*input))
                .collect();
            if open.is_empty() {
                return Ok(None);
            }
            open.sort_by_key(|(input, _)| (input + count - first) % count);
            let waiting = open
                .into_iter()
                .map(|(input, receiver)| Box::pin(async move { (input, receiver.recv().await) }));
            let ((input, received), _, _) = futures::future::select_all(waiting).await;
            self.first = (input + 1) % count;
            match received {
                None => self.closed[input] = true,
                Some((Element::Barrier(barrier), room)) => {
                    if let Some(aligned) = self.aligner.barrier(input, barrier)? {
                        return Ok(Some((Element::Barrier(aligned), room)));
                    }
                }
                batch => return Ok(batch),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bad record ends the source, whose channel closes; the sink ends well, and may be joined first.
    #[test]
    fn the_error_of_a_task_is_told_whoever_is_joined_first() {
        let notice = || [ended_early(), gone("source"), gone("source").context("sink")];
        for other in notice() {
            let told = weightier(other, Error::fatal("a bad record"));
            assert_eq!((told.kind(), told.to_string().as_str()), (ErrorKind::Fatal, "a bad record"));
        }
        for other in notice() {
            assert_eq!(weightier(Error::retry("a failed write"), other).to_string(), "a failed write");
        }
        for other in notice() {
            assert_eq!(weightier(other, Error::retry("a failed write")).to_string(), "a failed write");
        }
    }

    #[test]
    fn what_another_attempt_cannot_mend_is_told_before_what_it_may() {
        let told = weightier(Error::retry("a checkpoint failed"), Error::fatal("a bad record"));
        assert_eq!(told.kind(), ErrorKind::Fatal);
        let told = weightier(Error::damage("a file is gone"), Error::fatal("a bad record"));
        assert_eq!(told.kind(), ErrorKind::Damage, "of equals the first");
    }
}
