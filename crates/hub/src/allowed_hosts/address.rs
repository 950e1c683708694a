//! Public addresses, and ranges of addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// IPv4 addresses that are not on the public Internet, with the length of their prefix (IANA's registries of
/// special addresses).
const SPECIAL_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Shared by the customers of an Internet provider.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    // Relays of 6to4.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, and reserved addresses including the broadcast address.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The public IPv6 addresses, except for [`SPECIAL_V6`].
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Addresses in [`GLOBAL_V6`] that are not public, or that contain an IPv4 address.
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    // Addresses for protocols, such as Teredo.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether an address is on the public Internet.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !SPECIAL_V4.iter().any(|range| contains_v4(*range, ip)),
        IpAddr::V6(ip) => {
            contains_v6(GLOBAL_V6, ip) && !SPECIAL_V6.iter().any(|range| contains_v6(*range, ip))
        }
    }
}

/// Returns the address that a URL has in place of a name.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    // The parser has normalized all spellings of addresses.
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn contains_v4((network, prefix): (Ipv4Addr, u32), ip: Ipv4Addr) -> bool {
    let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
    network.to_bits() & mask == ip.to_bits() & mask
}

fn contains_v6((network, prefix): (Ipv6Addr, u32), ip: Ipv6Addr) -> bool {
    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
    network.to_bits() & mask == ip.to_bits() & mask
}

/// The length of the prefix of IPv6 addresses that represent an IPv4 address (`::ffff:10.1.0.0`).
const MAPPED_PREFIX: u32 = 96;

/// A range of addresses: `10.1.0.0/16`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    network: IpAddr,
    /// The number of bits that all addresses have in common.
    prefix: u32,
}

impl AddressRange {
    pub(super) fn parse(text: &str) -> Option<AddressRange> {
        let (network, prefix) = match text.split_once('/') {
            Some((network, prefix)) => (network, Some(prefix.parse().ok()?)),
            None => (text, None),
        };
        let network: IpAddr = network.parse().ok()?;
        let max = if network.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(max);
        if prefix > max {
            return None;
        }
        // An IPv4 address that is written as an IPv6 address is compared as an IPv4 address.
        match network.to_canonical() {
            canonical if canonical.is_ipv4() == network.is_ipv4() => Some(AddressRange { network, prefix }),
            canonical => {
                Some(AddressRange { network: canonical, prefix: prefix.checked_sub(MAPPED_PREFIX)? })
            }
        }
    }

    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        match (self.network, ip) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => contains_v4((network, self.prefix), ip),
            (IpAddr::V6(network), IpAddr::V6(ip)) => contains_v6((network, self.prefix), ip),
            _ => false,
        }
    }
}
