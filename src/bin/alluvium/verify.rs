//! `alluvium verify`.

use alluvium::Error;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;
use alluvium::storage::RealDisk;

use crate::args::VerifyArgs;
use crate::exit::Exit;

/// Loads the pipeline and hands it on.
pub(crate) fn verify(args: &VerifyArgs) -> alluvium::Result<Exit> {
    let pipeline = Pipeline::load(&RealDisk::new(), &args.file, &ProcessEnvironment)?;
    Err(Error::fatal(format!("{}: `verify` is not in this build ({args:?})", pipeline.name)))
}
