//! The key of a session lock: servers lock by number or by short text, so a name becomes 64 bits of its digest.
//! The name stands in a row beside it, so that two names of one key are found out and refused (bug 81).

use aws_lc_rs::digest::{SHA256, digest};

use crate::Name;
use crate::error::Error;

/// 64 bits from the whole name and the tables that it belongs to: other tables in the same server have other keys.
pub(crate) fn of(tables: &str, name: &Name) -> i64 {
    let text = format!("{tables}\0{}", name.as_str());
    let digest = digest(&SHA256, text.as_bytes());
    let bytes = digest.as_ref().iter().take(8);
    bytes.fold(0, |key, byte| (key << 8) | i64::from(*byte))
}

/// What is said when another name has the same key.
pub(crate) fn collision(backend: &'static str, name: &Name, other: &str) -> Error {
    Error::Refused {
        backend,
        why: format!(
            "the names {:?} and {other:?} have the same 64-bit key, so one would lock the other: rename one of them, \
             or use mode=lease, which has no keys",
            name.as_str()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // bug 81
    #[test]
    fn keys_differ_by_name_and_tables_and_use_all_bits() {
        let mut seen = std::collections::HashSet::new();
        let (mut ones, mut zeros) = (0, 0);
        for number in 0..200_000 {
            let name = Name::new(format!("order/{number}")).unwrap();
            let key = of("public.lockkeeper", &name);
            assert!(seen.insert(key), "{name:?}");
            ones |= key;
            zeros |= !key;
        }
        assert_eq!((ones, zeros), (-1, -1), "some bit never changes");
        let name = Name::new("order/1").unwrap();
        assert!(seen.contains(&of("public.lockkeeper", &name)));
        assert!(!seen.contains(&of("public.other", &name)));
    }
}
