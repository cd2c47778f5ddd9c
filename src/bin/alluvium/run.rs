//! `alluvium run`.

use alluvium::Error;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;
use alluvium::storage::RealDisk;

use crate::args::RunArgs;
use crate::exit::Exit;

/// Loads the pipeline and hands it on.
pub(crate) fn run(args: &RunArgs) -> alluvium::Result<Exit> {
    let pipeline = Pipeline::load(&RealDisk::new(), &args.file, &ProcessEnvironment)?;
    Err(Error::fatal(format!("{}: `run` is not in this build ({args:?})", pipeline.name)))
}
