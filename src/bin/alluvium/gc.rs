//! `alluvium gc`.

use alluvium::Error;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;
use alluvium::storage::RealDisk;

use crate::args::GcArgs;
use crate::exit::Exit;

/// Loads the pipeline and hands it on.
pub(crate) fn gc(args: &GcArgs) -> alluvium::Result<Exit> {
    let pipeline = Pipeline::load(&RealDisk::new(), &args.file, &ProcessEnvironment)?;
    Err(Error::fatal(format!("{}: `gc` is not in this build ({args:?})", pipeline.name)))
}
