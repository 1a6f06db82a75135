//! Where things stand in etcd's one flat list of keys.
//!
//! | key | what it is |
//! |---|---|
//! | `PREFIX/NAME/TICKET` | a claim; its create revision is its order number |
//! | `PREFIX/%session/LEASE` | a keeper's session: lives with its lease, and is changed to call late entries off |
//! | `PREFIX/%broken/LEASE` | what an operator broke, for a day |
//!
//! A name is written as it is, except that every byte which is no letter, digit, `.`, `_`, `-`, `:`, `@`, `+`,
//! `,` or `=` becomes `%` and two hex digits. So no name is the beginning of another one's directory, none meets
//! `%session`, and the usual names can be used as they are with `etcdctl lock PREFIX/NAME`.

use crate::Name;
use crate::claim::ClaimId;

/// The keys under one prefix.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

/// A range of keys: everything that begins with `start`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
}

impl Directory {
    fn of(start: String) -> Self {
        let start = start.into_bytes();
        let mut end = start.clone();
        // Every directory ends in a slash, whose successor is a character too.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self { start, end }
    }
}

impl Keys {
    pub(super) fn under(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    /// All claims on one name.
    pub(super) fn directory(&self, name: &Name) -> Directory {
        Directory::of(format!("{}/{}/", self.prefix, encoded(name.as_str())))
    }

    /// Everything.
    pub(super) fn all(&self) -> Directory {
        Directory::of(format!("{}/", self.prefix))
    }

    /// The key of a claim that several keepers know: the same for all of them. The id cannot be read from it.
    pub(super) fn common(&self, name: &Name, id: &ClaimId) -> Vec<u8> {
        self.ticket(name, id.as_bytes())
    }

    /// A key that no other claim has had: `serial` is another one for each that the keeper asks for.
    pub(super) fn seat(&self, name: &Name, id: &ClaimId, serial: u64) -> Vec<u8> {
        self.ticket(name, &[&id.as_bytes()[..], &serial.to_be_bytes()].concat())
    }

    fn ticket(&self, name: &Name, secret: &[u8]) -> Vec<u8> {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret);
        let ticket = digest.as_ref().iter().take(16);
        let ticket: String = ticket.map(|byte| format!("{byte:02x}")).collect();
        let mut key = self.directory(name).start;
        key.extend(ticket.into_bytes());
        key
    }

    pub(super) fn session(&self, lease: i64) -> Vec<u8> {
        format!("{}/%session/{lease:016x}", self.prefix).into_bytes()
    }

    pub(super) fn broken(&self, lease: i64) -> Vec<u8> {
        format!("{}/%broken/{lease:016x}", self.prefix).into_bytes()
    }

    /// The name whose directory the key stands in, if it is a claim's.
    pub(super) fn name_of(&self, key: &[u8]) -> Option<Name> {
        let rest = std::str::from_utf8(key).ok()?;
        let rest = rest.strip_prefix(&self.prefix)?.strip_prefix('/')?;
        let (name, _ticket) = rest.split_once('/')?;
        let text = decoded(name)?;
        // What anybody else wrote differently is not in the directory that we look at.
        (encoded(&text) == name).then(|| Name::new(text).ok())?
    }
}

/// Letters, digits and a few signs as they are, the rest as `%` and two hex digits.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-:@+,=".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The text that [`encoded`] made this of.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push((digit()? * 16 + digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> Keys {
        Keys::under("/p")
    }

    fn name(text: &str) -> Name {
        Name::new(text.to_owned()).unwrap()
    }

    proptest! {
        // security S7
        #[test]
        fn a_name_comes_back_and_is_no_others_beginning(a in ".{1,60}", b in ".{1,60}") {
            let (a, b) = (name(&a), name(&b));
            let key = keys().common(&a, &ClaimId::from_bytes([7; 16]));
            prop_assert_eq!(keys().name_of(&key), Some(a.clone()));
            let other = keys().directory(&b).start;
            prop_assert_eq!(a == b, key.starts_with(&other));
        }
    }

    #[test]
    fn the_usual_names_are_written_as_they_are() {
        let id = ClaimId::from_bytes([0; 16]);
        let text = String::from_utf8(keys().common(&name("orders-42"), &id)).unwrap();
        // The beginning of SHA-256 of sixteen zero bytes.
        assert_eq!(text, "/p/orders-42/374708fff7719dd5979ec875d56cd228");
        let start = keys().directory(&name("a/b")).start;
        assert_eq!(start, b"/p/a%2Fb/");
    }

    #[test]
    fn what_is_no_claim_has_no_name() {
        let keys = keys();
        for key in [
            keys.session(5),
            keys.broken(5),
            b"/p/a".to_vec(),
            b"/q/a/b".to_vec(),
            b"/p//b".to_vec(),
            b"/p/%41/b".to_vec(),
            b"/p/\xff/b".to_vec(),
        ] {
            assert_eq!(keys.name_of(&key), None, "{key:?}");
        }
        let foreign = b"/p/a/694d8f3b2a1c".to_vec();
        assert_eq!(keys.name_of(&foreign), Some(name("a")));
        let range = keys.directory(&name("a"));
        assert!(range.start < foreign && foreign < range.end);
    }
}
