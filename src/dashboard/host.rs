//! Which names a request may call this host by.

use std::net::IpAddr;
use std::net::Ipv6Addr;

/// The names that are allowed beside addresses and `localhost`.
#[derive(Debug)]
pub(super) struct HostNames {
    names: Vec<String>,
}

impl HostNames {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self { names }
    }

    /// Whether a request to `host` (a `Host` header: a name or an address, perhaps with a port) is
    /// answered. An address cannot be pointed elsewhere by whoever owns a domain.
    pub(super) fn allow(&self, host: &str) -> bool {
        if let Some(rest) = host.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else { return false };
            return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
        }
        let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
        let is_known = name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok()
            || self.names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
        is_known && is_port(port)
    }
}

/// Nothing, or a colon and a port.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}
