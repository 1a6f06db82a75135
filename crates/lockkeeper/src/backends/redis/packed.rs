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
    /// Of so many parts, which are about so long in all.
    pub(crate) fn of(parts: usize, length: usize) -> Self {
        let mut bytes = Vec::with_capacity(length + 16 * parts);
        bytes.push(b'*');
        number(&mut bytes, parts);
        Self(bytes)
    }

    /// Of these words.
    pub(crate) fn words(words: &[&[u8]]) -> Self {
        let mut packed = Self::of(words.len(), 0);
        words.iter().for_each(|word| packed.part(word));
        packed
    }

    /// The next part.
    pub(crate) fn part(&mut self, part: &[u8]) {
        self.0.push(b'$');
        number(&mut self.0, part.len());
        self.0.extend_from_slice(part);
        self.0.extend_from_slice(b"\r\n");
    }
}

fn number(to: &mut Vec<u8>, number: usize) {
    let (mut digits, mut at, mut rest) = ([0; 20], 20, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    to.extend_from_slice(&digits[at..]);
    to.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_the_library_would_send(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20)) {
            let (mut theirs, mut ours) = (Cmd::new(), Packed::of(parts.len(), 0));
            for part in &parts {
                theirs.arg(part);
                ours.part(part);
            }
            prop_assert_eq!(theirs.get_packed_command(), ours.0);
        }
    }
}
