//! One file per kind of claim.

mod coordinating;
mod format;
mod storing;
mod walking;
