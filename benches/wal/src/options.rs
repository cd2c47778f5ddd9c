//! The command line.

use std::path::Path;
use std::path::PathBuf;

use crate::Result;

#[derive(Debug, Clone)]
pub struct Options {
    pub rounds: usize,
    pub only: String,
    pub dir: PathBuf,
    pub json: Option<PathBuf>,
    pub limits: bool,
}

impl Options {
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            rounds: 20,
            only: String::new(),
            dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("target/wal"),
            json: None,
            limits: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--limits" {
                options.limits = true;
                continue;
            }
            let value = *words
                .next()
                .ok_or_else(|| format!("{word} is no option, or lacks its value; see the README"))?;
            match *word {
                "--rounds" => options.rounds = value.parse()?,
                "--only" => options.only = value.to_owned(),
                "--dir" => options.dir = value.into(),
                "--json" => options.json = Some(value.into()),
                _ => return Err(format!("{word} is no option; see the README").into()),
            }
        }
        if options.rounds == 0 {
            return Err("--rounds must be at least 1".into());
        }
        Ok(options)
    }
}
