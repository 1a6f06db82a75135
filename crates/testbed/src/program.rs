//! Where the servers' programs are, which Debian package brings each, and which user may run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::error::{Doing, Error, Result};

/// Debian keeps servers out of a user's PATH, and PostgreSQL's out of everybody's.
const EXTRA_DIRECTORIES: &[&str] = &["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Finds `program` in the directories of Debian, then in PATH.
pub(crate) fn find(program: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).collect::<Vec<_>>();
    let debian = EXTRA_DIRECTORIES.iter().map(PathBuf::from);
    debian
        .chain(on_path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| missing(program, package))
}

/// A file at a fixed place, such as a jar or a versioned directory's program.
pub(crate) fn fixed(path: &str, package: &str) -> Result<PathBuf> {
    let path = Path::new(path);
    if path.is_file() {
        return Ok(path.to_owned());
    }
    Err(missing(&path.display().to_string(), package))
}

fn missing(program: &str, package: &str) -> Error {
    Error::Missing {
        program: program.to_owned(),
        package: package.to_owned(),
    }
}

/// An account of this machine that a server is run as.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// The account to run a server as: `name` when this process is root, else none, which means
    /// that the server runs as whoever runs the test.
    pub(crate) fn instead_of_root(name: &str, package: &str) -> Result<Option<User>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").doing("reading /etc/passwd")?;
        let found = accounts.lines().find_map(|line| parse_account(line, name));
        found
            .map(Some)
            .ok_or_else(|| missing(&format!("the user {name}"), package))
    }

    /// The start of a command line that runs the rest as this account.
    pub(crate) fn setpriv_arguments(&self) -> [String; 3] {
        [
            format!("--reuid={}", self.uid),
            format!("--regid={}", self.gid),
            "--clear-groups".to_owned(),
        ]
    }
}

fn parse_account(line: &str, name: &str) -> Option<User> {
    let mut fields = line.split(':');
    if fields.next()? != name {
        return None;
    }
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(User {
        name: name.to_owned(),
        uid,
        gid,
    })
}

/// A command that runs as `user`, or as the caller.
pub(crate) fn command_as(user: Option<&User>, program: &Path) -> Result<Command> {
    let Some(user) = user else {
        return Ok(Command::new(program));
    };
    let mut command = Command::new(find("setpriv", "util-linux")?);
    command
        .args(user.setpriv_arguments())
        .arg("--")
        .arg(program);
    // initdb and the client programs look here, and root's home is closed to them.
    command
        .env("HOME", "/")
        .env("USER", &user.name)
        .env("LOGNAME", &user.name);
    Ok(command)
}

/// Runs a short command to its end and gives its standard output.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let what = format!("{:?}", command.get_program());
    let output = command.output().doing(format!("running {what}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command {
        what: format!("{command:?}"),
        output: both_streams(&output),
    })
}

fn both_streams(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = find("no-such-server", "no-such-package").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no-such-server is missing: install the Debian package no-such-package"
        );
    }

    #[test]
    fn accounts_are_read_by_whole_name() {
        let line = "mysql:x:105:106:MySQL Server,,,:/nonexistent:/bin/false";
        let user = parse_account(line, "mysql").unwrap();
        assert_eq!((user.uid, user.gid), (105, 106));
        assert!(parse_account(line, "my").is_none());
    }
}
