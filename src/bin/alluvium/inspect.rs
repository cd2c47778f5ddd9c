//! `alluvium inspect`.

use alluvium::Error;

use crate::args::InspectArgs;
use crate::exit::Exit;

/// Shows what is in the state directory.
pub(crate) fn inspect(args: &InspectArgs) -> alluvium::Result<Exit> {
    let form = if args.json { "JSON" } else { "text" };
    Err(Error::fatal(format!(
        "{} cannot be shown as {form}: `inspect` is not in this build",
        args.state.display()
    )))
}
