//! Who syncs for whom: the first to wait leads, whoever comes meanwhile follows.

use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::stream::Lsn;

use super::WalError;
use super::health::lock;

/// The meeting point of those who wait for durability.
#[derive(Debug, Default)]
pub(super) struct Group {
    leading: Mutex<bool>,
    led: Condvar,
}

/// Ends a lead, also by a panic, so that followers do not wait for ever.
struct Lead<'a>(&'a Group);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        *lock(&self.0.leading) = false;
        self.0.led.notify_all();
    }
}

impl Group {
    /// Returns once `durable` answers at least `target`, or its error. Of those who wait, one at a time
    /// calls `sync`, which makes durable what it finds; the others wait for it and look again.
    pub(super) fn wait(
        &self,
        target: Lsn,
        durable: impl Fn() -> Result<Lsn, WalError>,
        sync: impl Fn() -> Result<(), WalError>,
    ) -> Result<Lsn, WalError> {
        loop {
            let mut leading = lock(&self.leading);
            loop {
                let reached = durable()?;
                if reached >= target {
                    return Ok(reached);
                }
                if !*leading {
                    break;
                }
                leading = self.led.wait(leading).unwrap_or_else(PoisonError::into_inner);
            }
            *leading = true;
            drop(leading);
            let lead = Lead(self);
            sync()?;
            drop(lead);
        }
    }
}
