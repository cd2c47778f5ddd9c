mod promises;
mod sweep;
