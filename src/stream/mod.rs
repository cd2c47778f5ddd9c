//! The vocabulary of what travels between tasks.
//!
//! Owns names and small values only: nothing here does I/O.

mod batch;
mod id;

pub use batch::Batch;
pub use batch::Element;
pub use batch::Rejected;
pub use batch::Span;
pub use batch::Spans;
pub use batch::Stage;
pub use id::Barrier;
pub use id::BarrierKind;
pub use id::Epoch;
pub use id::Incarnation;
pub use id::Lineage;
pub use id::Lsn;
pub use id::SplitId;
pub use id::TaskId;
