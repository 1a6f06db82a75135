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
    to.push(b'*');
    number(to, parts);
}

/// The next part.
pub(super) fn part(to: &mut Vec<u8>, part: &[u8]) {
    to.push(b'$');
    number(to, part.len());
    to.extend_from_slice(part);
    to.extend_from_slice(b"\r\n");
}

/// A number as the next part.
pub(super) fn count(to: &mut Vec<u8>, count: usize) {
    let (digits, at) = digits(count);
    part(to, &digits[at..]);
}

fn number(to: &mut Vec<u8>, number: usize) {
    let (digits, at) = digits(number);
    to.extend_from_slice(&digits[at..]);
    to.extend_from_slice(b"\r\n");
}

/// The digits of a number, and where they begin.
fn digits(number: usize) -> ([u8; 20], usize) {
    let (mut digits, mut at, mut rest) = ([0; 20], 20, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return (digits, at);
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
