//! One file per kind of claim.

mod claims;
mod format;
mod model;
mod restoring;
