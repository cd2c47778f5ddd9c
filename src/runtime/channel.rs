//! Channels between tasks, bounded in bytes: a slow sink holds its source back, not the memory.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;

use crate::error::Error;
use crate::error::Result;
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
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.map_err(|_closed| gone())?;
        self.push(Element::Batch(batch), Some(room))
    }

    /// Sends `barrier` behind everything sent before; it needs no room.
    pub(crate) fn send_barrier(&self, barrier: Barrier) -> Result<()> {
        self.push(Element::Barrier(barrier), None)
    }

    fn push(&self, element: Element, room: Option<OwnedSemaphorePermit>) -> Result<()> {
        self.elements.send(Sent { element, room }).map_err(|_closed| gone())
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

fn gone() -> Error {
    Error::retry("the receiving task has ended")
}
