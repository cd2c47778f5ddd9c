//! Alluvium lands event streams as well-sized, bucketed Parquet, end-to-end exactly once, in one
//! process.

pub mod checkpoint;
pub mod clock;
pub mod codec;
#[cfg(feature = "cli")]
pub mod dashboard;
pub mod doors;
mod error;
pub mod format;
pub mod operator;
pub mod pipeline;
pub mod pool;
pub mod runtime;
pub mod sink;
pub mod source;
pub mod state;
pub mod storage;
pub mod stream;
pub mod telemetry;
pub mod testing;
pub mod wal;

pub use error::Error;
pub use error::ErrorKind;
pub use error::Result;
