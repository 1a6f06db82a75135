//! Which node of a cluster serves which slot.

use redis::Value;

use super::wire;

/// The slots of a cluster.
const SLOTS: u16 = 16384;

/// The slot of a key, by its hash tag: what stands between the first braces.
pub(super) fn slot(key: &[u8]) -> u16 {
    let open = key.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, as the cluster's specification says.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        let mut crc = crc ^ (u16::from(*byte) << 8);
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc = (crc << 1) ^ if carry { 0x1021 } else { 0 };
        }
        crc
    })
}

/// A node as the cluster names it.
pub(super) type Place = (String, u16);

/// Ranges of slots and their masters.
#[derive(Debug, Default, Clone)]
pub(super) struct Map(Vec<(u16, u16, Place)>);

impl Map {
    /// From the answer to `CLUSTER SLOTS`; a node that names no host means the one that was asked.
    pub(super) fn parse(answer: &Value, asked: &str) -> Option<Self> {
        let ranges = wire::items(answer)?.iter().map(|range| {
            let [first, last, master, ..] = wire::items(range)? else {
                return None;
            };
            let [host, port, ..] = wire::items(master)? else {
                return None;
            };
            let number = |value: &Value| match value {
                Value::Int(number) => u16::try_from(*number).ok(),
                _ => None,
            };
            let host = wire::bytes(host).and_then(|host| std::str::from_utf8(host).ok());
            let host = host.filter(|host| !host.is_empty()).unwrap_or(asked);
            Some((
                number(first)?,
                number(last)?,
                (host.to_owned(), number(port)?),
            ))
        });
        ranges.collect::<Option<Vec<_>>>().map(Self)
    }

    pub(super) fn master(&self, slot: u16) -> Option<&Place> {
        let range = self
            .0
            .iter()
            .find(|(first, last, _)| (*first..=*last).contains(&slot));
        range.map(|(_, _, place)| place)
    }

    /// Whether every slot has its master.
    pub(super) fn is_whole(&self) -> bool {
        let served = self
            .0
            .iter()
            .map(|(first, last, _)| last.abs_diff(*first) + 1);
        served.map(u32::from).sum::<u32>() >= u32::from(SLOTS)
    }

    /// The masters, each once, in order.
    pub(super) fn masters(&self) -> Vec<Place> {
        let mut all: Vec<Place> = self.0.iter().map(|(_, _, place)| place.clone()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// One slot has moved.
    pub(super) fn move_to(&mut self, slot: u16, place: Place) {
        self.0.insert(0, (slot, slot, place));
    }
}

/// Where a redirection points: `MOVED 3999 127.0.0.1:6381`.
pub(super) fn redirection(detail: &str, asked: &str) -> Option<Place> {
    let (_slot, place) = detail.split_once(' ')?;
    let (host, port) = place.trim().rsplit_once(':')?;
    let host = if host.is_empty() { asked } else { host };
    Some((host.to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_the_clusters_own() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"x{foo}:y"), 12182);
        assert_eq!(slot(b"lk:{foo}:k:{bar}"), 12182);
        assert_eq!(slot(b"{}foo"), crc16(b"{}foo") % SLOTS);
    }

    #[test]
    fn redirections() {
        let place = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(redirection("3999 1.2.3.4:7", "h"), place("1.2.3.4", 7));
        assert_eq!(redirection("3999 :7", "h"), place("h", 7));
        assert_eq!(redirection("3999 ::1:7", "h"), place("::1", 7));
        assert_eq!(redirection("3999", "h"), None);
    }
}
