//! The command line.

use std::path::Path;
use std::path::PathBuf;

use crate::Result;
use crate::events::Order;
use crate::events::Plan;

#[derive(Debug, Clone)]
pub struct Options {
    pub events: u64,
    pub pairs: usize,
    pub threads: Vec<usize>,
    pub orders: Vec<Order>,
    pub dir: PathBuf,
    pub alluvium: Option<PathBuf>,
    pub bare_only: bool,
    pub limit: Option<f64>,
}

impl Options {
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            events: 5_000_000,
            pairs: 5,
            threads: vec![1, 2],
            orders: vec![Order::Mixed, Order::Jitter],
            dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("target/landing"),
            alluvium: None,
            bare_only: false,
            limit: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--bare-only" {
                options.bare_only = true;
                continue;
            }
            let value = *words
                .next()
                .ok_or_else(|| format!("{word} is no option, or lacks its value; see the README"))?;
            match *word {
                "--events" => options.events = value.parse()?,
                "--pairs" => options.pairs = value.parse()?,
                "--threads" => {
                    options.threads = value.split(',').map(str::parse).collect::<Result<_, _>>()?
                }
                "--orders" => options.orders = value.split(',').map(order).collect::<Result<_>>()?,
                "--dir" => options.dir = value.into(),
                "--alluvium" => options.alluvium = Some(value.into()),
                "--limit" => options.limit = Some(value.parse()?),
                _ => return Err(format!("{word} is no option; see the README").into()),
            }
        }
        Ok(options)
    }

    pub fn plan(&self, order: Order) -> Plan {
        Plan { events: self.events, files: 8, seed: 42, order }
    }
}

fn order(name: &str) -> Result<Order> {
    let known = [Order::Mixed, Order::Jitter];
    Ok(known.into_iter().find(|order| order.name() == name).ok_or("an order is mixed or jitter")?)
}
