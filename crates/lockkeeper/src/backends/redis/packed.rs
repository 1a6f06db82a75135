//! Questions as they go over the wire. The scripts' are put together here and not by the client library, which makes a
//! list of the parts first: they are on the way of every lock, and a quorum sends one to all of its nodes.

use redis::Cmd;

/// Something to ask a server.
pub(crate) trait Pack {
    /// Puts it behind what is there.
    fn write(&self, to: &mut Vec<u8>);
}

impl Pack for Cmd {
    fn write(&self, to: &mut Vec<u8>) {
        self.write_packed_command(to);
    }
}

/// A question that was put together once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed(Vec<u8>);

impl Pack for Packed {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.0);
    }
}

impl Packed {
    /// Something that will be asked more than once, or later; it is about so long.
    pub(crate) fn once(question: &impl Pack, length: usize) -> Self {
        let mut bytes = Vec::with_capacity(length);
        question.write(&mut bytes);
        Self(bytes)
    }

    /// Of these words.
    pub(crate) fn words(words: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        begin(&mut bytes, words.len());
        words.iter().for_each(|word| part(&mut bytes, word));
        Self(bytes)
    }
}

/// A question of so many parts, which follow.
pub(super) fn begin(to: &mut Vec<u8>, parts: usize) {
    line(to, b'*', parts);
}

/// The next part.
pub(super) fn part(to: &mut Vec<u8>, part: &[u8]) {
    line(to, b'$', part.len());
    to.extend_from_slice(part);
    to.extend_from_slice(b"\r\n");
}

/// A number as the next part.
pub(super) fn count(to: &mut Vec<u8>, count: usize) {
    match count {
        0..=9 => part(to, &[b'0' + count as u8]),
        _ => part(to, count.to_string().as_bytes()),
    }
}

/// A kind and a number. Nearly all numbers have one digit or two.
fn line(to: &mut Vec<u8>, kind: u8, number: usize) {
    let digit = |number: usize| b'0' + (number % 10) as u8;
    match number {
        0..=9 => to.extend_from_slice(&[kind, digit(number), b'\r', b'\n']),
        10..=99 => {
            let digits = [digit(number / 10), digit(number)];
            to.extend_from_slice(&[kind, digits[0], digits[1], b'\r', b'\n']);
        }
        _ => {
            to.push(kind);
            to.extend_from_slice(number.to_string().as_bytes());
            to.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_the_library_would_send(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20)) {
            let mut theirs = Cmd::new();
            for part in &parts {
                theirs.arg(part);
            }
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(theirs.get_packed_command(), Packed::words(&parts).0);
        }
    }
}
