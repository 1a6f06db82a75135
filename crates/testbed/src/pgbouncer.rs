//! PgBouncer in transaction mode: a pooler that hands the server's sessions about.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Doing, Result};
use crate::home::Home;
use crate::launch::Launch;
use crate::ports::{self, Port};
use crate::postgres::{Postgres, accepts_connections};
use crate::program::{self, User};
use crate::server::Server;

const PACKAGE: &str = "pgbouncer";
const READY_WITHIN: Duration = Duration::from_secs(20);

/// One PgBouncer before one PostgreSQL server.
#[derive(Debug)]
pub struct PgBouncer {
    server: Server,
}

impl PgBouncer {
    /// Starts one in transaction mode; `settings` are further lines of its configuration.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn before(postgres: &Postgres, settings: &str) -> Result<PgBouncer> {
        // It refuses to run as root.
        let user = User::instead_of_root("postgres", "postgresql-15")?;
        let program = program::find("pgbouncer", PACKAGE)?;
        let target = postgres.address();
        ports::retrying(|| {
            let home = Arc::new(Home::new("pgbouncer", false)?);
            let directory = home.node("pgbouncer", user.as_ref())?;
            let port = Port::reserve()?;
            let file = directory.join("pgbouncer.ini");
            // With `any` everybody is the user that is named for the database.
            let text = format!(
                "[databases]\npostgres = host={} port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
                 unix_socket_dir =\nauth_type = any\npool_mode = transaction\n{settings}\n",
                target.ip(),
                target.port(),
                port.number()
            );
            fs::write(&file, text).doing("writing pgbouncer.ini")?;
            let launch = Launch::new("pgbouncer", directory, vec![port])
                .program(&program)
                .args([file.display().to_string()])
                .user(user.clone())
                .ready(READY_WITHIN, accepts_connections);
            Ok(PgBouncer {
                server: Server::start(launch, &home)?,
            })
        })
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// `postgres://` URL through it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address())
    }
}
