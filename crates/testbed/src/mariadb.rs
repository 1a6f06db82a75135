//! MariaDB, on a copy of a data directory that is made once per machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::Result;
use crate::launch::Launch;
use crate::ports::Port;
use crate::program::{self, User};
use crate::server::Server;
use crate::setup::Setup;
use crate::template::Template;
use crate::wire;

const PACKAGE: &str = "mariadb-server";
const READY_WITHIN: Duration = Duration::from_secs(30);

/// One MariaDB server; `root` needs no password.
#[derive(Debug)]
pub struct MariaDb {
    server: Server,
}

impl MariaDb {
    /// Starts one that does not wait for the disk.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start() -> Result<MariaDb> {
        MariaDb::start_with(&Setup::new())
    }

    /// Starts one to order; settings are options of `mariadbd`.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_with(setup: &Setup) -> Result<MariaDb> {
        // It refuses to run as root.
        let user = User::instead_of_root("mysql", PACKAGE)?;
        let program = program::find("mariadbd", PACKAGE)?;
        let template = Template::get(&program, user.as_ref(), |data| initialise(data, &user))?;
        let recipe = |directory, port| recipe(&program, directory, port, setup);
        let server = template.start("mariadb", user.as_ref(), setup, recipe)?;
        Ok(MariaDb { server })
    }

    /// The process, and what can be done to it.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// `mysql://` URL of `root` and the database `mysql`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@{}/mysql", self.address())
    }

    /// Runs statements with the `mariadb` client and gives the rows, columns separated by tabs.
    ///
    /// # Errors
    /// When a statement fails.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let mut client = Command::new(program::find("mariadb", "mariadb-client")?);
        client.args([
            "--no-defaults",
            "-uroot",
            "-h127.0.0.1",
            "--connect-timeout=5",
            "-BN",
        ]);
        client
            .arg(format!("-P{}", self.server.port()))
            .args(["-e", statements]);
        program::output_of(&mut client).map(|rows| rows.trim().to_owned())
    }
}

fn initialise(data: &Path, user: &Option<User>) -> Result<()> {
    let program = program::find("mariadb-install-db", PACKAGE)?;
    let mut install = program::command_as(user.as_ref(), &program)?;
    install.args([
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ]);
    install.args(["--skip-name-resolve", "--innodb-log-file-size=8M"]);
    install.arg(format!("--datadir={}", data.display()));
    program::output_of(install.current_dir("/")).map(drop)
}

fn recipe(program: &Path, directory: PathBuf, port: Port, setup: &Setup) -> Launch {
    let inside = |name: &str| directory.join(name).display().to_string();
    let places = [
        format!("--datadir={}", inside("data")),
        format!("--socket={}", inside("socket")),
        format!("--pid-file={}", inside("pid")),
        format!("--port={}", port.number()),
    ];
    let durability: &[&str] = if setup.durable {
        &["--innodb-flush-log-at-trx-commit=1"]
    } else {
        &[
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-doublewrite=0",
        ]
    };
    let launch = Launch::new("mariadb", directory, vec![port])
        .program(program)
        .args(["--no-defaults"])
        .args(places)
        .args([
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
        ])
        // Small and without statistics: many of them run side by side.
        .args(["--performance-schema=OFF", "--innodb-buffer-pool-size=32M"])
        .args([
            "--innodb-log-file-size=8M",
            "--innodb-buffer-pool-load-at-startup=0",
        ])
        .args(["--key-buffer-size=1M", "--aria-pagecache-buffer-size=1M"])
        .args(durability)
        .args(
            setup
                .settings
                .iter()
                .map(|(name, value)| format!("--{name}={value}")),
        );
    launch.ready(READY_WITHIN, greets)
}

/// The server speaks first, and its greeting begins with the protocol's version, 10; an error
/// packet, as from a server without a free connection, begins with 255.
fn greets(address: SocketAddr) -> bool {
    let greeting = wire::ask(address, b"", wire::PATIENCE, |greeting| greeting.len() > 4);
    greeting.is_ok_and(|greeting| greeting.get(4) == Some(&10))
}
