//! A real browser without a window.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Slower than this is a broken browser, on any machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A browser is many processes: two at once only make each other slow.
static TURN: Mutex<()> = Mutex::new(());

/// A directory with pages, and the browser that opens them.
pub(crate) struct Chromium {
    program: PathBuf,
    directory: tempfile::TempDir,
}

impl Chromium {
    pub(crate) fn new() -> Chromium {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&path).map(|place| place.join("chromium"));
        let program = places.find(|place| place.is_file());
        Chromium {
            program: program.expect("chromium is missing: install the Debian package chromium"),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// Opens a page and gives its elements as they are after everything on it has happened.
    pub(crate) fn dom(&self, html: &str) -> String {
        self.open(html, &["--dump-dom"])
    }

    /// Opens a page and gives a PNG of it.
    pub(crate) fn screenshot(&self, html: &str, (width, height): (u32, u32)) -> Vec<u8> {
        let picture = self.directory.path().join("page.png");
        let to = format!("--screenshot={}", picture.display());
        let size = format!("--window-size={width},{height}");
        self.open(html, &[&to, &size, "--hide-scrollbars"]);
        fs::read(picture).expect("chromium made no picture")
    }

    fn open(&self, html: &str, arguments: &[&str]) -> String {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |name: &str| self.directory.path().join(name);
        let (page, out, log) = (at("page.html"), at("out"), at("log"));
        fs::write(&page, html).unwrap();
        let profile = format!("--user-data-dir={}", at("profile").display());
        let child = Command::new(&self.program)
            // A container gives neither root a sandbox nor anybody much shared memory.
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
            ])
            .args([
                "--no-first-run",
                "--disable-extensions",
                "--disable-background-networking",
            ])
            .arg(profile)
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        wait(child, &log);
        fs::read_to_string(out).unwrap()
    }
}

fn wait(mut child: Child, log: &Path) {
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if began.elapsed() > PATIENCE => break None,
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.is_none_or(|status| !status.success()) {
        let _already_ended = child.kill();
        let _already_waited = child.wait();
        let said = fs::read_to_string(log).unwrap_or_default();
        panic!(
            "chromium ended with {status:?} after {:?}:\n{said}",
            began.elapsed()
        );
    }
}
