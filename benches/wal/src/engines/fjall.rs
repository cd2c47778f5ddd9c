//! fjall's journal, default settings: a database, but its inserts can be made durable many at once.

use std::path::Path;

use fjall::Database;
use fjall::Keyspace;
use fjall::KeyspaceCreateOptions;
use fjall::PersistMode;

use super::Log;
use super::Writer;
use crate::Result;
use crate::records::number;

pub struct Journal {
    database: Database,
    keyspace: Keyspace,
}

struct Handle<'a> {
    journal: &'a Journal,
}

impl Journal {
    pub fn open(dir: &Path) -> Result<Self> {
        let database = Database::builder(dir.join("fjall")).open()?;
        let keyspace = database.keyspace("log", KeyspaceCreateOptions::default)?;
        Ok(Self { database, keyspace })
    }
}

impl Log for Journal {
    fn writer(&self, writer: u64) -> Result<Box<dyn Writer + '_>> {
        if writer > 0 {
            return Err("fjall is measured with one writer".into());
        }
        Ok(Box::new(Handle { journal: self }))
    }
}

impl Writer for Handle<'_> {
    fn commit(&mut self, record: &[u8]) -> Result<()> {
        self.in_flight(&[record])
    }

    fn in_flight(&mut self, records: &[&[u8]]) -> Result<()> {
        for record in records {
            self.journal.keyspace.insert(number(record).1.to_be_bytes(), *record)?;
        }
        Ok(self.journal.database.persist(PersistMode::SyncData)?)
    }
}

pub fn replay(dir: &Path, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let journal = Journal::open(dir)?;
    for guard in journal.keyspace.iter() {
        each(&guard.value()?);
    }
    Ok(())
}
