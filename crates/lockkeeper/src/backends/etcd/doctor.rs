//! What is wrong with the real server, as far as it tells: each finding with its harm and its cure. They stand
//! among the caveats of the guarantees.

use super::proto::Status;

/// What was found out while connecting.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) status: Status,
    /// Members that vote; 0 if the server does not say.
    pub(super) voters: usize,
    /// The shortest lease that it grants, in seconds; `None` if it grants none at all.
    pub(super) floor: Option<u64>,
    pub(super) tls: bool,
    pub(super) login: bool,
}

/// The first releases without a known fault, one for each line; later lines have none of them.
struct Fixed {
    releases: &'static [(u32, u32, u32)],
    harm: &'static str,
}

const FIXED: &[Fixed] = &[Fixed {
    releases: &[(3, 4, 44), (3, 5, 30), (3, 6, 11)],
    harm: "users can get past the limits of their roles (CVE-2026-44283): tenants who do not trust each other need clusters of their own",
}];

pub(super) fn findings(examined: &Examined) -> Vec<String> {
    let mut found = Vec::new();
    let version = &examined.status.version;
    for fault in FIXED {
        if is_before(version, fault.releases) {
            let cure = "update the server";
            found.push(format!("etcd {version}: {}; {cure}", fault.harm));
        }
    }
    match examined.voters {
        1 => found.push(
            "one member only: while it is down nobody gets a lock, and its disk is the only one; run three".into(),
        ),
        2 => found.push(
            "two members: both must be up, so two are worse than one; run three".into(),
        ),
        _ => {}
    }
    if let Some(floor) = examined.floor.filter(|floor| *floor > 5) {
        found.push(format!(
            "leases shorter than {floor} s are not granted, because the election timeout is long; shorten it if the network allows"
        ));
    }
    let Status {
        db_size,
        db_size_quota,
        ..
    } = examined.status;
    if db_size_quota > 0 && db_size > db_size_quota / 10 * 9 {
        found.push(
            "its database has nearly reached the quota: then nothing can be entered; compact and defragment it".into(),
        );
    }
    for error in &examined.status.errors {
        found.push(format!("it reports {error}: see etcdctl alarm list"));
    }
    if !examined.tls {
        found.push(
            "no TLS: whoever reads along can break locks; use it for anything but this machine"
                .into(),
        );
    }
    if !examined.login {
        found.push("no login: whoever reaches it can break locks; give each program a user with a role on the prefix".into());
    }
    found
}

/// Whether the version is known, and lacks a fix that its line has got.
fn is_before(version: &str, releases: &[(u32, u32, u32)]) -> bool {
    let Some((major, minor, patch)) = parsed(version) else {
        return false;
    };
    let line = releases.iter().find(|r| (r.0, r.1) == (major, minor));
    let oldest = releases.first().map(|r| (r.0, r.1));
    line.is_some_and(|r| patch < r.2) || oldest.is_some_and(|oldest| (major, minor) < oldest)
}

pub(super) fn parsed(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(version: &str) -> Examined {
        Examined {
            status: Status {
                version: version.into(),
                ..Status::default()
            },
            voters: 3,
            floor: Some(2),
            tls: true,
            login: true,
        }
    }

    // security S4
    #[test]
    fn old_versions_are_found_and_fixed_ones_are_not() {
        for (version, faults) in [
            ("3.3.10", 1),
            ("3.4.23", 1),
            ("3.4.31", 1),
            ("3.4.44", 0),
            ("3.5.12", 1),
            ("3.5.30", 0),
            ("3.6.0", 1),
            ("3.6.11", 0),
            ("3.7.0", 0),
            ("4.0.0", 0),
            ("unheard-of", 0),
        ] {
            let found = findings(&examined(version));
            assert_eq!(found.len(), faults, "{version}: {found:?}");
        }
    }

    #[test]
    fn everything_is_found_at_once() {
        let sick = Examined {
            status: Status {
                version: "3.6.11".into(),
                db_size: 95,
                db_size_quota: 100,
                errors: vec!["memberID:1 alarm:NOSPACE".into()],
                ..Status::default()
            },
            voters: 1,
            floor: Some(9),
            tls: false,
            login: false,
        };
        let found = findings(&sick).join("\n");
        for word in [
            "one member",
            "9 s",
            "quota",
            "NOSPACE",
            "no TLS",
            "no login",
        ] {
            assert!(found.contains(word), "{word} in {found}");
        }
    }
}
