//! The durable ceiling of order numbers: none above it has ever been used. It is raised in blocks, on
//! the disk before the first number of a block is used, so that no grant waits for the disk.

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::directory::Directory;
use super::faults::{from_system, unreachable};
use crate::error::Error;

/// How many numbers one raise covers.
pub(super) const BLOCK: u64 = 1 << 20;

const NAME: &str = "ceiling";
const DRAFT: &str = "ceiling.new";
const TITLE: &str = "lockkeeper ceiling 1";

/// The ceiling on the disk; `None` if there is no such file.
pub(super) fn read(directory: &Directory) -> Result<Option<u64>, Error> {
    let fault = |errno| from_system(&directory.path, "reading `ceiling`", errno);
    let file = match directory.open_file(NAME) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(fault(errno)),
    };
    let mut text = [0; 128];
    let length = rustix::io::pread(&file, &mut text, 0).map_err(fault)?;
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    let number = parse(text).ok_or_else(|| {
        unreachable(format!(
            "reading `ceiling` in {}, which is damaged, so that tokens could go back (nothing was granted: put the file back; if no resource remembers a token, stop all users and delete the whole directory)",
            directory.path.display()
        ))
    })?;
    Ok(Some(number))
}

/// Puts the ceiling on the disk; it is there when this returns.
pub(super) fn write(directory: &Directory, ceiling: u64) -> Result<(), Error> {
    let fault = |errno| from_system(&directory.path, "raising `ceiling`", errno);
    let write = || -> Result<(), Errno> {
        // What a killed process may have left.
        directory.remove(DRAFT)?;
        let draft = directory.make_file(DRAFT)?;
        let text = print(ceiling);
        if rustix::io::pwrite(&draft, text.as_bytes(), 0)? != text.len() {
            return Err(Errno::NOSPC);
        }
        rustix::fs::fsync(&draft)?;
        rustix::fs::renameat(&directory.fd, DRAFT, &directory.fd, NAME)?;
        rustix::fs::fsync(&directory.fd)
    };
    write().map_err(|errno| {
        let _nothing_to_remove = rustix::fs::unlinkat(&directory.fd, DRAFT, AtFlags::empty());
        fault(errno)
    })
}

fn print(ceiling: u64) -> String {
    let body = format!("{TITLE}\n{ceiling}\n");
    format!("{body}{:016x}\n", digest(body.as_bytes()))
}

fn parse(text: &str) -> Option<u64> {
    let number = text.strip_prefix(TITLE)?.strip_prefix('\n')?;
    let number = number.split('\n').next()?.parse().ok()?;
    (print(number) == text).then_some(number)
}

/// FNV-1a: against accidents, not against malice, which may write here anyway.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F1
    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let text = print(1 << 40);
        assert_eq!(parse(&text), Some(1 << 40));
        for place in 0..text.len() {
            assert_eq!(parse(&text[..place]), None, "cut at {place}");
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[place] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                assert_eq!(parse(&flipped), None, "bit {bit} of byte {place}");
            }
        }
    }
}
