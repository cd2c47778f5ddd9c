//! One file per kind of claim.

mod coordinating;
mod crashing;
mod format;
mod storing;
mod walking;
