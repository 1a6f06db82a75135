//! Where the packages of foreign clients come from: each language's own tool, once per pinned list,
//! into a folder below `target/foreign`. Processes that want the same folder wait for each other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FlockOperation;

use crate::error::{Doing, Error, Result};
use crate::home::lock_file;
use crate::program::output_of;

/// Says that a folder is complete.
const DONE: &str = "installed";

/// The tool that makes a class path; without a version, each Maven would choose its own.
const CLASS_PATH_GOAL: &str =
    "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath";

/// A file of the foreign programs.
pub(super) fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("foreign")
        .join(file)
}

/// A language's program, as the user's own path has it: it need not come from the system's packages.
pub(super) fn runtime(program: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Error::Missing {
            program: program.to_owned(),
            package: package.to_owned(),
        })
}

/// A Python that has the pinned packages.
pub(super) fn python() -> Result<PathBuf> {
    let python = runtime("python3", "python3-venv")?;
    let list = source("python/requirements.txt");
    let place = once("python", &[&list], |place| {
        output_of(Command::new(&python).args(["-m", "venv"]).arg(place))?;
        let mut pip = Command::new(place.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--requirement"]);
        output_of(pip.arg(&list))
    })?;
    Ok(place.join("bin/python"))
}

/// The folder of the pinned npm packages.
pub(super) fn node_modules() -> Result<PathBuf> {
    let npm = runtime("npm", "npm")?;
    let list = source("node/package.json");
    let place = once("node", &[&list], |place| {
        copy_into(&list, place, "package.json")?;
        let mut install = Command::new(&npm);
        install.args(["install", "--no-audit", "--no-fund", "--no-package-lock"]);
        output_of(install.current_dir(place))
    })?;
    Ok(place.join("node_modules"))
}

/// The class path of a Java client: its pinned packages and its compiled program.
pub(super) fn java_classes(client: &str, main_class: &str) -> Result<String> {
    let maven = runtime("mvn", "maven")?;
    let javac = runtime("javac", "default-jdk-headless")?;
    let list = source(&format!("java/{client}.pom.xml"));
    let packages = once(client, &[&list], |place| {
        copy_into(&list, place, "pom.xml")?;
        let mut goal = Command::new(&maven);
        goal.args(["--quiet", "--batch-mode", CLASS_PATH_GOAL]);
        goal.arg("-Dmdep.outputFile=class-path");
        goal.arg(format!(
            "-Dmaven.repo.local={}",
            place.join("packages").display()
        ));
        output_of(goal.current_dir(place))
    })?;
    let class_path =
        fs::read_to_string(packages.join("class-path")).doing("reading a class path")?;

    let main = source(&format!("java/{main_class}.java"));
    let sources = [main.as_path(), &source("java/Conversation.java")];
    let classes = once(&format!("{client}-program"), &sources, |place| {
        let mut compile = Command::new(&javac);
        compile.args(["-cp", &class_path, "-d"]).arg(place);
        output_of(compile.args(sources))
    })?;
    Ok(format!("{}:{class_path}", classes.display()))
}

/// The compiled Go client.
pub(super) fn go_program() -> Result<PathBuf> {
    let go = runtime("go", "golang-go")?;
    let (main, modules) = (source("go/main.go"), source("go/go.mod"));
    let place = once("go", &[&main, &modules], |place| {
        let mut build = Command::new(&go);
        build
            .args(["build", "-buildvcs=false", "-o"])
            .arg(place.join("client"));
        output_of(build.current_dir(source("go")))
    })?;
    Ok(place.join("client"))
}

/// The folder that `install` fills, named by what the files in `from` say: who changes a pin gets a
/// new folder. A folder that somebody was killed over is filled again from the start.
fn once(
    name: &str,
    from: &[&Path],
    install: impl FnOnce(&Path) -> Result<String>,
) -> Result<PathBuf> {
    let cache = cache_directory();
    fs::create_dir_all(&cache).doing(format!("making {}", cache.display()))?;
    let place = cache.join(format!("{name}-{:016x}", fingerprint(from)?));
    let _alone = lock_file(&place.with_extension("lock"), FlockOperation::LockExclusive)?;
    if place.join(DONE).exists() {
        return Ok(place);
    }
    if place.exists() {
        fs::remove_dir_all(&place).doing(format!("removing {}", place.display()))?;
    }
    fs::create_dir(&place).doing(format!("making {}", place.display()))?;
    let said = install(&place)?;
    fs::write(place.join(DONE), said).doing("noting what is installed")?;
    Ok(place)
}

fn cache_directory() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    let target = target.canonicalize().unwrap_or(target);
    target.join("foreign")
}

/// FNV-1a over the files' contents.
fn fingerprint(files: &[&Path]) -> Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let content = fs::read(file).doing(format!("reading {}", file.display()))?;
        for byte in content {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}

fn copy_into(file: &Path, place: &Path, name: &str) -> Result<()> {
    let copied = fs::copy(file, place.join(name));
    copied
        .map(|_| ())
        .doing(format!("copying {}", file.display()))
}
