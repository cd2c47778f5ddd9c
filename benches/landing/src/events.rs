//! Web clicks as NDJSON, about 195 bytes a line: the same bytes for the same plan.

use std::fs;
use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

/// 2026-01-01T00:00:00Z.
const DAY_START_MS: u64 = 1_767_225_600_000;
const DAY_MS: u64 = 86_400_000;
/// Disorder of `Order::Jitter`, to both sides.
const JITTER_MS: u64 = 120_000;

const COUNTRIES: [&str; 20] = [
    "DE", "US", "FR", "GB", "IN", "BR", "JP", "CN", "IT", "ES", "PL", "NL", "SE", "CA", "AU", "MX", "KR",
    "TR", "ZA", "AR",
];
const TAGS: [&str; 16] = [
    "new",
    "mobile",
    "desktop",
    "sale",
    "returning",
    "newsletter",
    "ad",
    "search",
    "organic",
    "ab-a",
    "ab-b",
    "vip",
    "cart",
    "checkout",
    "app",
    "beta",
];
const SECTIONS: [&str; 8] = ["shoes", "books", "garden", "toys", "music", "phones", "kitchen", "travel"];
const REFERENCES: [&str; 6] = ["mail", "home", "ad", "search", "feed", "direct"];

/// How the events' times lie over the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each anywhere in the day: 24 open hour buckets all the time.
    Mixed,
    /// One after the other with some disorder: one or two open hour buckets.
    Jitter,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Jitter => "jitter",
        }
    }

    pub fn buckets(self) -> u32 {
        match self {
            Self::Mixed => 24,
            Self::Jitter => 1,
        }
    }
}

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub events: u64,
    pub files: u64,
    pub seed: u64,
    pub order: Order,
}

/// What was made, by which a landing is verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub events: u64,
    pub bytes: u64,
    pub user_ids: i64,
    pub times: i64,
}

/// Makes the files in a folder of their own below `base`, or finds them there from an earlier run.
pub fn make(base: &Path, plan: Plan) -> io::Result<(PathBuf, Sums)> {
    let Plan { events, files, seed, order } = plan;
    let dir = base.join(format!("events-{events}-{files}-{seed}-{}", order.name()));
    let done = dir.join("sums");
    if let Some(sums) = fs::read_to_string(&done).ok().and_then(|text| parse(&text)) {
        return Ok((dir, sums));
    }
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir)?;
    let sums = write(&dir, plan)?;
    fs::write(done, format!("{} {} {} {}", sums.events, sums.bytes, sums.user_ids, sums.times))?;
    Ok((dir, sums))
}

fn parse(text: &str) -> Option<Sums> {
    let mut words = text.split_whitespace();
    let mut next = || words.next();
    Some(Sums {
        events: next()?.parse().ok()?,
        bytes: next()?.parse().ok()?,
        user_ids: next()?.parse().ok()?,
        times: next()?.parse().ok()?,
    })
}

fn write(dir: &Path, plan: Plan) -> io::Result<Sums> {
    let mut dice = Dice(plan.seed);
    let mut sums = Sums::default();
    let mut line = Vec::with_capacity(512);
    for file in 0..plan.files {
        let mut out =
            BufWriter::with_capacity(1 << 20, File::create(dir.join(format!("events-{file:03}.ndjson")))?);
        while sums.events < plan.events * (file + 1) / plan.files {
            line.clear();
            let (user_id, time) = event(&mut dice, plan, sums.events, &mut line)?;
            out.write_all(&line)?;
            sums.events += 1;
            sums.bytes += line.len() as u64;
            sums.user_ids = sums.user_ids.wrapping_add(user_id.cast_signed());
            sums.times = sums.times.wrapping_add(time.cast_signed());
        }
        out.flush()?;
    }
    Ok(sums)
}

fn event(dice: &mut Dice, plan: Plan, number: u64, line: &mut Vec<u8>) -> io::Result<(u64, u64)> {
    let (a, b) = (dice.roll(), dice.roll());
    let user_id = dice.skewed(1_000_000);
    let time = DAY_START_MS
        + match plan.order {
            Order::Mixed => dice.below(DAY_MS),
            Order::Jitter => (number * DAY_MS / plan.events + dice.below(2 * JITTER_MS))
                .saturating_sub(JITTER_MS)
                .min(DAY_MS - 1),
        };
    let (section, product) = (dice.skewed_of(&SECTIONS), dice.skewed(50_000));
    let (country, cents) = (dice.skewed_of(&COUNTRIES), 99 + dice.skewed(49_900));
    let reference = REFERENCES[dice.below(6) as usize];
    write!(
        line,
        "{{\"event_id\":\"{:08x}-{:04x}-{:04x}-{:04x}-{:012x}\",\"user_id\":{user_id},\"ts\":{time},\
         \"url\":\"https://shop.example.com/{section}/p/{product}?ref={reference}\",\
         \"country\":\"{country}\",\"price\":{}.{:02},\"tags\":[",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xffff,
        b >> 48,
        b & 0xffff_ffff_ffff,
        cents / 100,
        cents % 100
    )?;
    for i in 0..dice.below(4) {
        let comma = if i > 0 { "," } else { "" };
        write!(line, "{comma}\"{}\"", TAGS[dice.below(16) as usize])?;
    }
    line.extend_from_slice(b"]}\n");
    Ok((user_id, time))
}

/// SplitMix64, <https://prng.di.unimi.it/splitmix64.c>.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(end)) >> 64) as u64
    }

    /// Small numbers more often: the lesser of two.
    fn skewed(&mut self, end: u64) -> u64 {
        self.below(end).min(self.below(end))
    }

    fn skewed_of(&mut self, words: &[&'static str]) -> &'static str {
        words[self.skewed(words.len() as u64) as usize]
    }
}
