//! What the user reads when something went wrong: what happened, to what, what was done, what to do.

use std::io;
use std::io::IsTerminal;
use std::io::Write;

use alluvium::Error;
use alluvium::ErrorKind;

use crate::exit::Exit;

/// How an advice begins that comes after an error which has changed nothing.
const UNCHANGED: &str = "Nothing was changed.";

/// Writes `text` to standard output. A reader that went away (`| head`) is no error.
pub(crate) fn say(text: &str) -> alluvium::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::fatal("standard output cannot be written").with_source(error))
        }
        _ => Ok(()),
    }
}

/// Prints why `command` failed, and what that means for the data.
pub(crate) fn failed(command: &str, error: &Error) -> Exit {
    let mut text = format!("{} {error}\n", mark());
    if let Some(advice) = advice(command, error.kind()) {
        // It is said once.
        let told = text.to_lowercase().contains("nothing was changed");
        let advice = if told { advice.trim_start_matches(UNCHANGED).trim_start() } else { advice };
        if !advice.is_empty() {
            text.push_str(advice);
            text.push('\n');
        }
    }
    complain(&text);
    Exit::from(error.kind())
}

/// Prints what clap says; help and version are no failures.
pub(crate) fn usage(error: &clap::Error) -> Exit {
    // Where nobody listens there is nothing left to tell.
    let _unheard = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Done }
}

/// A panic is a fault of ours: it is told in one line, without a trace, unless `RUST_BACKTRACE` asks.
pub(crate) fn announce_faults() {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.payload_as_str().unwrap_or("no message");
        let place = panic
            .location()
            .map_or_else(String::new, |place| format!(" ({}:{})", place.file(), place.line()));
        let mut text = format!(
            "{} a fault in Alluvium itself: {what}{place}\n\
             What was acknowledged is safe. Please report this line and what led to it.\n",
            mark()
        );
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
            text.push_str(&format!("{}\n", std::backtrace::Backtrace::force_capture()));
        }
        complain(&text);
    }));
}

fn advice(command: &str, kind: ErrorKind) -> Option<&'static str> {
    match (command, kind) {
        ("run" | "check" | "verify" | "gc", ErrorKind::Usage) => Some(UNCHANGED),
        ("run", ErrorKind::Retry) => Some(
            "The restart strategy has given up. Nothing acknowledged is lost: run it again, and it resumes from the last completed checkpoint.",
        ),
        ("run", ErrorKind::Fatal) => Some(
            "The job stopped, since another attempt would fail in the same way. Nothing acknowledged is lost: mend the cause and run it again, and it resumes from the last completed checkpoint.",
        ),
        ("wal", ErrorKind::Damage) => Some(
            "Nothing was changed. `alluvium wal verify DIR` lists all damage; docs/wal.md tells what `salvage` and `truncate` can save.",
        ),
        (_, ErrorKind::Damage) => Some(
            "Nothing was changed. `alluvium inspect STATE` and `alluvium verify FILE` show what there is; docs/recovery.md tells what can be done.",
        ),
        ("run", ErrorKind::Fenced) => {
            Some("Another process has taken over this job; this one stopped and changed nothing more.")
        }
        _ => None,
    }
}

fn mark() -> &'static str {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stderr().is_terminal() && !plain { "\u{1b}[1;31merror:\u{1b}[0m" } else { "error:" }
}

fn complain(text: &str) {
    // Where standard error is closed there is nobody to tell.
    let _unheard = io::stderr().lock().write_all(text.as_bytes());
}
