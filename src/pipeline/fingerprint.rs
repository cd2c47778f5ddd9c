//! What must stay the same between two runs on one state (D17).
//!
//! # The hash
//!
//! FNV-1a with 128 bits over the parts in their order, each as the little-endian lengths (`u64`) and
//! bytes of name and value. Stable between versions of the program: it is compared with what an older
//! one wrote down.
//!
//! Not in it, so that they may change at any start: intervals, rolling, memory, encoding of files,
//! restart strategy, and what happens to bad records (a job that stopped at one is started again with
//! `bad_record = "dead_letter"`).

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

use crate::format::type_text;
use crate::operator::TransformSettings;
use crate::pipeline::model::InputFormat;
use crate::pipeline::model::Pipeline;
use crate::pipeline::settings::SinkFormat;
use crate::pipeline::settings::UnknownField;

/// A hash of everything that decides which rows land in which bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub u128);

impl fmt::Display for Fingerprint {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn fnv1a(hash: u128, bytes: &[u8]) -> u128 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(FNV_PRIME))
}

impl Pipeline {
    /// The hash of [`Self::identity`].
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = FNV_OFFSET;
        for (name, value) in self.identity() {
            for text in [name.as_str(), value.as_str()] {
                hash = fnv1a(hash, &(text.len() as u64).to_le_bytes());
                hash = fnv1a(hash, text.as_bytes());
            }
        }
        Fingerprint(hash)
    }

    /// What the fingerprint is made of, by key: kept beside it, it tells what changed.
    ///
    /// An inferred schema is not among them: it is fixed in the state.
    pub fn identity(&self) -> Vec<(String, String)> {
        let mut parts: Vec<(String, String)> = Vec::new();
        let mut part = |key: &str, value: String| parts.push((key.to_owned(), value));
        part("name", self.name.clone());
        part("source.type", "file".to_owned());
        part("source.path", self.source.base.join(&self.source.path).display().to_string());
        part(
            "source.format",
            match self.source.format {
                InputFormat::Ndjson => "ndjson",
                InputFormat::Csv => "csv",
            }
            .to_owned(),
        );
        part(
            "on_error.unknown_field",
            match self.on_error.unknown_field {
                // Both give the same rows of those that are taken.
                UnknownField::Ignore | UnknownField::Fail => "not landed",
                UnknownField::Capture => "capture",
            }
            .to_owned(),
        );
        match &self.schema {
            None => part("schema", "inferred".to_owned()),
            Some(schema) => {
                for field in schema.fields() {
                    part(&format!("schema.{}", field.name()), type_text(field.data_type()));
                }
            }
        }
        for (at, transform) in self.transforms.iter().enumerate() {
            match transform {
                TransformSettings::Filter { expression } => {
                    part(&format!("transform[{at}].expression"), expression.clone());
                }
                TransformSettings::Select { fields } => {
                    part(&format!("transform[{at}].fields"), format!("{fields:?}"));
                }
                TransformSettings::Rename { map } => {
                    part(&format!("transform[{at}].map"), format!("{map:?}"))
                }
            }
        }
        part("sink.type", "file".to_owned());
        part("sink.path", self.sink.path.display().to_string());
        part(
            "sink.format",
            match self.sink.format {
                SinkFormat::Parquet => "parquet",
                SinkFormat::Ndjson => "ndjson",
                SinkFormat::Csv => "csv",
            }
            .to_owned(),
        );
        for (at, level) in self.sink.partition_by.iter().enumerate() {
            part(&format!("sink.partition_by[{at}]"), level.clone());
        }
        part("sink.time_zone", self.sink.time_zone.iana_name().unwrap_or("UTC").to_owned());
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::FNV_OFFSET;
    use super::fnv1a;

    #[test]
    fn the_hash_is_fnv_1a_with_128_bits() {
        // The vectors of draft-eastlake-fnv.
        assert_eq!(fnv1a(FNV_OFFSET, b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(fnv1a(FNV_OFFSET, b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
