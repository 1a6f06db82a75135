//! Making the tables, and sweeping them.

use std::sync::Arc;

use super::client::Client;
use super::config::Config;
use super::doctor;
use super::faults::Fault;
use super::text::fill;
use crate::error::Error;

/// The statements that make the tables, and what a user of them needs to be granted.
pub fn script(config: &Config) -> String {
    let rights = include_str!("sql/rights.sql");
    config.statement(&format!("{}\n{rights}", tables(config)))
}

/// Makes the tables where they are missing, and checks those that are there.
///
/// # Errors
/// [`Error::Denied`] when this user may not make them, [`Error::Refused`] when what is there is of another version or mode.
///
/// # Cancel safety
/// Cancel safe: it goes on by itself, and may be done again.
pub async fn init(config: &Config) -> Result<(), Error> {
    let client = Arc::new(Client::new(config.client(), 1));
    doctor::examine(&client, config).await?;
    make(config).await?;
    Ok(doctor::check_tables(&client, config).await?)
}

/// Takes out claims whose lease has ended; says how many. Whoever passes by does so too: this is for names that nobody asks
/// for any more.
///
/// # Errors
/// As of connecting.
///
/// # Cancel safety
/// Cancel safe: it goes on by itself, and may be done again.
pub async fn gc(config: &Config) -> Result<u64, Error> {
    let client = Arc::new(Client::new(config.client(), 1).patient());
    doctor::check_tables(&client, config).await?;
    let sweep = if config.is_session() {
        "DELETE FROM @claims WHERE COALESCE(IS_USED_LOCK(COALESCE(wait_lock, lock_name)), 0) <> connection"
    } else {
        // A claim that waits behind one of these finds out by itself when it looks again.
        "DELETE FROM @claims WHERE ends_at <= UTC_TIMESTAMP(6); \
         UPDATE @names SET state = 'free' WHERE state = 'alone' AND ends_at <= UTC_TIMESTAMP(6)"
    };
    let told = client.ask("sweeping", config.statement(sweep)).await?;
    Ok(told.iter().map(|told| told.affected).sum())
}

/// Makes the tables. Of several who do so at once each finds what the others made.
pub(super) async fn make(config: &Config) -> Result<(), Fault> {
    let client = Arc::new(Client::new(config.client(), 1).patient());
    let packet = config.statement(&fill(&tables(config), &[]));
    client.ask("making the tables", packet).await.map(drop)
}

fn tables(config: &Config) -> String {
    let own = if config.is_session() {
        include_str!("sql/session.sql")
    } else {
        include_str!("sql/lease.sql")
    };
    format!("{own}\n{}", include_str!("sql/both.sql"))
}
