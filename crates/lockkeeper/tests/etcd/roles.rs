//! Other processes: this same program, started again with a role.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::stage::{LEASE, SOON, acquires, keeper_at};

const URL: &str = "LOCKKEEPER_TEST_ETCD_URL";

/// A process that holds `a` until it is told to release it, and says what it knows.
pub(crate) struct Holder {
    child: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Holder {
    /// Returns when it holds.
    pub(crate) fn start(url: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(["--exact", "roles::a_holder", "--nocapture"])
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this program starts again");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _gone = said.send(line);
            }
        });
        let mut holder = Self {
            child,
            input,
            lines,
        };
        holder.expect("holds");
        holder
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(status.success());
    }

    pub(crate) fn ask(&mut self, question: &str) {
        writeln!(self.input, "{question}").unwrap();
    }

    pub(crate) fn expect(&mut self, word: &str) {
        loop {
            let line = self.lines.recv_timeout(SOON).expect("it says something");
            if let Some(said) = line.split_once("says ").map(|(_, said)| said) {
                assert_eq!(said, word);
                return;
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Not a test of its own: the other process.
#[test]
fn a_holder() {
    let Ok(url) = std::env::var(URL) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.block_on(async {
        let keeper = keeper_at(&url).await;
        acquires(keeper.lock("a").lease(LEASE)).await
    });
    println!("\nsays holds");
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).is_ok_and(|n| n > 0) {
        match line.trim() {
            "check" if guard.check().is_ok() => println!("says held"),
            "check" => println!("says lost"),
            _ => {
                std::thread::sleep(Duration::from_millis(1));
                break;
            }
        }
        line.clear();
    }
}
