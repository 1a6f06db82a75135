//! PostgreSQL, on a copy of a data directory that is made once per machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::home::Home;
use crate::launch::Launch;
use crate::ports::{self, Port};
use crate::program::{self, User};
use crate::server::Server;
use crate::setup::Setup;
use crate::template::Template;
use crate::wire;

const PACKAGE: &str = "postgresql-15";
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
const READY_WITHIN: Duration = Duration::from_secs(30);

/// One PostgreSQL server; the superuser `postgres` needs no password.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
}

impl Postgres {
    /// Starts one that does not wait for the disk.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start() -> Result<Postgres> {
        Postgres::start_with(&Setup::new())
    }

    /// Starts one to order; settings are those of `postgresql.conf`.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_with(setup: &Setup) -> Result<Postgres> {
        // It refuses to run as root.
        let user = User::instead_of_root("postgres", PACKAGE)?;
        let program = installed("postgres")?;
        let template = Template::get(&program, user.as_ref(), |data| initialise(data, &user))?;
        let recipe = |directory, port| recipe(&program, directory, port, setup);
        let server = template.start("postgres", user.as_ref(), setup, recipe)?;
        Ok(Postgres { server })
    }

    /// Starts a standby of this server: a copy that follows it and may only be read.
    ///
    /// # Errors
    /// When the copy cannot be made, or does not come up.
    pub fn standby(&self) -> Result<Postgres> {
        let user = User::instead_of_root("postgres", PACKAGE)?;
        let program = installed("postgres")?;
        let server = ports::retrying(|| {
            let home = Arc::new(Home::new("standby", false)?);
            let directory = home.node("standby", user.as_ref())?;
            self.copy_to(&directory.join("data"), &user)?;
            let launch = recipe(&program, directory, Port::reserve()?, &Setup::new());
            Server::start(launch.user(user.clone()), &home)
        })?;
        Ok(Postgres { server })
    }

    /// Copies the data while it is in use, with all that a copy needs to follow on.
    fn copy_to(&self, data: &Path, user: &Option<User>) -> Result<()> {
        let mut copy = program::command_as(user.as_ref(), &installed("pg_basebackup")?)?;
        copy.args(["-h", "127.0.0.1", "-U", "postgres", "-p"]);
        copy.arg(self.server.port().to_string());
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        copy.arg("-D").arg(data).current_dir("/");
        program::output_of(&mut copy).map(drop)
    }

    /// The process, and what can be done to it; its children are paused and killed with it.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// `postgres://` URL of the superuser and the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address())
    }

    /// Runs statements with `psql` and gives the rows, columns separated by `|`.
    ///
    /// # Errors
    /// When a statement fails.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let mut psql = Command::new(program::find("psql", "postgresql-client-15")?);
        psql.args([
            "--no-psqlrc",
            "--no-password",
            "-qAt",
            "-v",
            "ON_ERROR_STOP=1",
        ]);
        psql.args(["-h", "127.0.0.1", "-U", "postgres", "-d", "postgres"]);
        psql.arg("-p")
            .arg(self.server.port().to_string())
            .args(["-c", statements]);
        program::output_of(psql.env("PGCONNECT_TIMEOUT", "5")).map(|rows| rows.trim().to_owned())
    }
}

fn installed(program: &str) -> Result<PathBuf> {
    program::fixed(&format!("{PROGRAMS}/{program}"), PACKAGE)
}

fn initialise(data: &Path, user: &Option<User>) -> Result<()> {
    let mut initdb = program::command_as(user.as_ref(), &installed("initdb")?)?;
    initdb.args([
        "-U",
        "postgres",
        "-A",
        "trust",
        "--no-sync",
        "--locale=C",
        // Sixteen times smaller than usual: the copy is what a start costs.
        "--wal-segsize=1",
        "-E",
        "UTF8",
        "-D",
    ]);
    // From a place that its user may enter.
    program::output_of(initdb.arg(data).current_dir("/")).map(drop)
}

fn recipe(program: &Path, directory: PathBuf, port: Port, setup: &Setup) -> Launch {
    let number = port.number().to_string();
    let data = directory.join("data").display().to_string();
    let sockets = format!("unix_socket_directories={}", directory.display());
    let sync = if setup.durable { "on" } else { "off" };
    let launch = Launch::new("postgres", directory, vec![port])
        .program(program)
        .args(["-D", &data, "-p", &number, "-c", &sockets])
        .args([
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "logging_collector=off",
        ])
        // In its own directory, where it is removed with the rest after a kill.
        .args(["-c", "dynamic_shared_memory_type=mmap"])
        .args(
            ["fsync", "synchronous_commit", "full_page_writes"]
                .iter()
                .flat_map(|setting| ["-c".to_owned(), format!("{setting}={sync}")]),
        )
        .args(
            setup
                .settings
                .iter()
                .flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]),
        );
    launch.forks().ready(READY_WITHIN, accepts_connections)
}

/// A start-up packet is answered with an authentication request, or with an error while the
/// server is still coming up.
pub(crate) fn accepts_connections(address: SocketAddr) -> bool {
    const PROTOCOL: u32 = 196_608;
    let parameters = b"user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(8 + parameters.len()).unwrap_or_default();
    let mut packet = length.to_be_bytes().to_vec();
    packet.extend_from_slice(&PROTOCOL.to_be_bytes());
    packet.extend_from_slice(parameters);
    let answer = wire::ask(address, &packet, wire::PATIENCE, |answer| {
        !answer.is_empty()
    });
    answer.is_ok_and(|answer| answer.first() == Some(&b'R'))
}
