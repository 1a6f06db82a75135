//! The Debian packages that the tests need, and installing those that are missing.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Servers and their clients, what moves the clock of one server (a compiler, an emulator), what
/// drops privileges and copies, what network tests shape traffic with, and a browser that opens the
/// page of the lab as a reader does.
const PACKAGES: &[&str] = &[
    "redis-server",
    "redis-sentinel",
    "etcd-server",
    "etcd-client",
    "zookeeper",
    "libzookeeper-java",
    "libslf4j-java",
    "default-jre-headless",
    "mariadb-server",
    "mariadb-client",
    "postgresql-15",
    "postgresql-client-15",
    "pgbouncer",
    "qemu-user",
    "gcc",
    "libc6-dev",
    "util-linux",
    "coreutils",
    "iproute2",
    "nftables",
    "chromium",
];

/// The languages of other people's clients: how to see that one is there, and the packages that bring
/// it. Not by package alone, because many machines have these from elsewhere, and a second one could
/// push the first aside.
const LANGUAGES: &[(&[&str], &[&str])] = &[
    (
        &["python3", "-c", "import ensurepip, venv"],
        &["python3", "python3-venv"],
    ),
    (&["node", "--version"], &["nodejs"]),
    (&["npm", "--version"], &["npm"]),
    (&["javac", "-version"], &["default-jdk-headless"]),
    (&["mvn", "--version"], &["maven"]),
    (&["go", "version"], &["golang-go"]),
];

/// The installer asks this program whether it may start a service; 101 means no.
const START_POLICY: &str = "/usr/sbin/policy-rc.d";

/// How apt-get may act as the administrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Root,
    Sudo,
    None,
}

/// Installs what is missing, or says what is and how to install it.
pub(crate) fn ensure() -> Result<(), String> {
    println!(
        "xtask: looking for the {} Debian packages of the servers and {} language tools",
        PACKAGES.len(),
        LANGUAGES.len()
    );
    let missing = missing_packages()?;
    if missing.is_empty() {
        println!("xtask: all are installed");
        return Ok(());
    }
    let right = right_to_install();
    if right == Right::None {
        return Err(how_to_install(&missing));
    }
    println!("xtask: installing {}", missing.join(" "));
    let start = Instant::now();
    administer(right, "apt-get", &["update"])?;
    install_quietly(right, &missing)?;
    println!("xtask: installed in {:.1} s", start.elapsed().as_secs_f64());
    match missing_packages()? {
        still if still.is_empty() => Ok(()),
        still => Err(format!(
            "apt-get succeeded, but these are missing: {}",
            still.join(" ")
        )),
    }
}

fn missing_packages() -> Result<Vec<&'static str>, String> {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f=${Package} ${db:Status-Status}\n"]);
    let output = query.stderr(Stdio::null()).output();
    let output = output.map_err(|error| {
        format!("dpkg-query: {error}; on another system than Debian, install the servers by hand")
    })?;
    let mut missing = missing_from(&String::from_utf8_lossy(&output.stdout));
    missing.extend(missing_languages(succeeds));
    Ok(missing)
}

fn missing_languages(is_there: impl Fn(&str, &[&str]) -> bool) -> Vec<&'static str> {
    let absent = |probe: &&[&str]| !is_there(probe[0], &probe[1..]);
    let absent = LANGUAGES.iter().filter(|(probe, _)| absent(probe));
    absent
        .flat_map(|(_, packages)| *packages)
        .copied()
        .collect()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn missing_from(installed: &str) -> Vec<&'static str> {
    let is_there = |package: &&str| {
        let line = format!("{package} installed");
        installed.lines().any(|candidate| candidate == line)
    };
    PACKAGES
        .iter()
        .copied()
        .filter(|package| !is_there(package))
        .collect()
}

fn how_to_install(missing: &[&str]) -> String {
    let list = missing.join(" ");
    format!(
        "Debian packages are missing, and there is no right to install them: {list}\n\
         run as root, then try again:\n  apt-get update && apt-get install -y {list}"
    )
}

fn right_to_install() -> Right {
    if Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
    {
        Right::Root
    } else if succeeds("sudo", &["-n", "true"]) {
        Right::Sudo
    } else {
        Right::None
    }
}

/// Installs without any of the servers being started, which nobody here would stop again. The
/// policy that forbids it goes away afterwards; a machine that had one keeps its own.
fn install_quietly(right: Right, missing: &[&str]) -> Result<(), String> {
    let own_policy = !Path::new(START_POLICY).exists();
    if own_policy {
        println!("xtask: {START_POLICY} forbids starting services meanwhile");
        forbid_services(right)?;
    }
    let mut install = vec!["-o", "DPkg::Lock::Timeout=300"];
    install.extend(["install", "-y", "--no-install-recommends"]);
    install.extend(missing);
    let installed = administer(right, "apt-get", &install);
    if own_policy {
        administer(right, "rm", &["-f", START_POLICY])?;
    }
    installed
}

fn forbid_services(right: Right) -> Result<(), String> {
    let draft = std::env::temp_dir().join(format!("policy-rc.d-{}", std::process::id()));
    let say = |error: std::io::Error| format!("{}: {error}", draft.display());
    fs::write(&draft, "#!/bin/sh\nexit 101\n").map_err(say)?;
    let from = draft.display().to_string();
    let outcome = administer(right, "install", &["-m", "755", &from, START_POLICY]);
    let _ = fs::remove_file(&draft);
    outcome
}

fn administer(right: Right, program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(if right == Right::Sudo { "sudo" } else { "env" });
    if right == Right::Sudo {
        command.args(["-n", "env"]);
    }
    command
        .args(["DEBIAN_FRONTEND=noninteractive", program])
        .args(arguments);
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| error.to_string())?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} failed: {status}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_installed_but(absent: &str) -> String {
        let others = PACKAGES.iter().filter(|package| **package != absent);
        others
            .map(|package| format!("{package} installed\n"))
            .collect()
    }

    #[test]
    fn only_what_is_not_installed_is_missing() {
        assert!(missing_from(&all_installed_but("")).is_empty());
        assert_eq!(missing_from(&all_installed_but("zookeeper")), ["zookeeper"]);
        // Removed, but with its configuration kept.
        let removed = all_installed_but("gcc") + "gcc config-files\n";
        assert_eq!(missing_from(&removed), ["gcc"]);
    }

    #[test]
    fn a_language_that_is_there_is_left_alone() {
        assert!(missing_languages(|_, _| true).is_empty());
        let all_but_npm = missing_languages(|program, _| program != "npm");
        assert_eq!(all_but_npm, ["npm"]);
        assert!(missing_languages(|_, _| false).contains(&"golang-go"));
    }

    #[test]
    fn without_rights_the_list_and_the_command_are_shown() {
        let text = how_to_install(&["redis-server", "zookeeper"]);
        assert!(text.contains("apt-get install -y redis-server zookeeper"));
    }
}
