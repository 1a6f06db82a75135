//! The wire: one connection to one member at a time, and another one when it does not answer; questions
//! with a time limit each; the login.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tokio::time::timeout;

use super::config::Config;
use super::faults::{self, Fault, classify, unreachable};
use super::grpc::{Channel, Failure, Stream};
use super::proto::{AuthToken, Credentials, Header, Range, RangeAnswer, Txn, TxnAnswer, method};
use super::socket::{CONNECT_WITHIN, Member};
use crate::error::Error;

/// As many as a question has.
const HEADERS: usize = 4;

/// One keeper's way to the cluster.
pub(super) struct Client {
    members: Vec<Member>,
    user: Option<(String, String)>,
    state: Mutex<State>,
    /// One logs in at a time: each login costs the server a tenth of a second.
    logging_in: tokio::sync::Mutex<()>,
    /// The latest term that an answer came from.
    term: AtomicU64,
}

struct State {
    link: Link,
    /// Questions in a row that were not answered in time.
    strikes: usize,
    token: Option<HeaderValue>,
}

/// A connection to one member; the next one has the next generation.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) generation: u64,
    /// Logins so far: whose token is refused logs in again, unless somebody has done so meanwhile.
    logins: u64,
    member: usize,
    channel: Channel,
}

/// An answer.
pub(super) struct Told<A> {
    pub(super) answer: A,
    /// Asked more than once: what an earlier question did is unknown, and it may yet be carried out.
    pub(super) repeated: bool,
}

impl Client {
    /// Finds a member that answers, and logs in.
    pub(super) async fn connect(config: &Config) -> Result<Self, Error> {
        let tls = config.tls.as_ref().map(|tls| tls.settings()).transpose()?;
        let members = config.members.iter();
        let members = members.map(|member| Member::new(member, tls.clone()));
        let members: Vec<Member> = members.collect::<Result<_, _>>()?;
        let mut last = None;
        // Keepers begin at different members, so that no member serves them all.
        let first = getrandom::u32().unwrap_or_default() as usize;
        for step in 0..members.len() {
            let member = first.wrapping_add(step) % members.len();
            let channel = Channel::to(members[member].clone());
            match channel.ready().await {
                Ok(_) => {
                    let link = Link {
                        generation: 1,
                        logins: 0,
                        member,
                        channel,
                    };
                    let state = State {
                        link,
                        strikes: 0,
                        token: None,
                    };
                    let client = Self {
                        members,
                        user: config.user.clone(),
                        state: Mutex::new(state),
                        logging_in: tokio::sync::Mutex::default(),
                        term: AtomicU64::default(),
                    };
                    client.log_in(0).await?;
                    return Ok(client);
                }
                Err(error) => last = Some(faults::not_connected(&error)),
            }
        }
        Err(last.unwrap_or_else(|| unreachable("connecting: no member is named")))
    }

    pub(super) async fn txn(
        &self,
        txn: &Txn,
        patience: Duration,
    ) -> Result<Told<TxnAnswer>, Fault> {
        let told: Told<TxnAnswer> = self.ask(method::TXN, txn, patience).await?;
        self.heard(told.answer.header.as_ref());
        Ok(told)
    }

    pub(super) async fn range(
        &self,
        range: &Range,
        patience: Duration,
    ) -> Result<RangeAnswer, Fault> {
        let answer: RangeAnswer = self.ask(method::RANGE, range, patience).await?.answer;
        self.heard(answer.header.as_ref());
        Ok(answer)
    }

    fn heard(&self, header: Option<&Header>) {
        let term = header.map_or(0, |header| header.raft_term);
        self.term.fetch_max(term, Ordering::Relaxed);
    }

    /// The latest term there is, as far as is known: what comes from an earlier one was said by a leader that
    /// has been replaced, or to somebody who has not heard of that.
    pub(super) fn term(&self) -> u64 {
        self.term.load(Ordering::Relaxed)
    }

    /// Asks the present member, then another one, at most each once and one of them twice. Only for
    /// questions that may be asked twice.
    pub(super) async fn ask<Q, A>(
        &self,
        method: &'static str,
        question: &Q,
        patience: Duration,
    ) -> Result<Told<A>, Fault>
    where
        Q: prost::Message,
        A: prost::Message + Default + 'static,
    {
        let mut repeated = false;
        let mut tries = 0;
        let mut may_log_in = true;
        loop {
            let logins = self.locked().link.logins;
            let mut fault = match self.ask_once(method, question, patience).await {
                Ok(answer) => return Ok(Told { answer, repeated }),
                Err(fault) => fault,
            };
            if self.login_helps(&fault) && std::mem::take(&mut may_log_in) {
                match self.log_in(logins).await {
                    Ok(()) => continue,
                    Err(error) => fault = Fault::Told(error),
                }
            }
            tries += 1;
            if tries > self.members.len() || !faults::is_the_members(&fault) {
                return Err(match repeated {
                    true => faults::after_no_answer(fault, method),
                    false => fault,
                });
            }
            repeated |= faults::is_unknown(&fault);
        }
    }

    async fn ask_once<Q, A>(
        &self,
        method: &'static str,
        question: &Q,
        patience: Duration,
    ) -> Result<A, Fault>
    where
        Q: prost::Message,
        A: prost::Message + Default + 'static,
    {
        let (link, headers) = self.addressed(method);
        let mut asked = Asked {
            client: self,
            generation: link.generation,
            answered: false,
        };
        let call = link.channel.ask(method, headers, question);
        let answer = timeout(patience, call).await;
        asked.answered = true;
        match answer {
            Ok(Ok(answer)) => {
                self.locked().strikes = 0;
                Ok(answer)
            }
            Ok(Err(failure)) => {
                let fault = classify(&failure, method);
                if faults::is_the_members(&fault) {
                    self.move_on(link.generation);
                }
                Err(fault)
            }
            Err(_) => {
                self.strike(link.generation);
                let during = format!("asking {method} (no answer within {patience:?})");
                Err(Fault::Told(unreachable(during)))
            }
        }
    }

    /// A two-way stream. It ends when it is dropped.
    pub(super) fn stream<Q, A>(&self, method: &'static str) -> (Link, Stream<Q, A>) {
        let (link, headers) = self.addressed(method);
        let stream = link.channel.stream(method, headers);
        (link, stream)
    }

    /// Turns to the next member, unless somebody has done so since this generation.
    pub(super) fn move_on(&self, generation: u64) {
        let mut state = self.locked();
        if state.link.generation == generation {
            state.next_member(&self.members);
        }
    }

    /// How many members the URL names.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// Whether the question may be answered after another login.
    fn login_helps(&self, fault: &Fault) -> bool {
        self.user.is_some() && matches!(fault, Fault::TokenExpired | Fault::NoUser)
    }

    /// A stream of this link has ended: logs in again, if that was the reason, or turns to the next member. What
    /// to tell those who waited for an answer on it.
    pub(super) async fn recover(&self, link: &Link, failure: &Failure, method: &str) -> Error {
        let fault = classify(failure, method);
        if self.login_helps(&fault) {
            let _told_by_the_next_call = self.log_in_again(link).await;
            return unreachable("the login ended meanwhile");
        }
        self.move_on(link.generation);
        match fault {
            Fault::Untrusted(_) if self.members.len() > 1 => {
                unreachable("asking the other members")
            }
            fault => fault.into(),
        }
    }

    /// The token of this link was refused.
    pub(super) async fn log_in_again(&self, link: &Link) -> Result<(), Error> {
        self.log_in(link.logins).await
    }

    /// Gets a token, if there is a user and nobody has got one since so many logins. Tokens end some minutes after
    /// their last use. The old one stays until the new one is there: without any, other questions would be
    /// refused for good, with it they are told to log in.
    async fn log_in(&self, since: u64) -> Result<(), Error> {
        let Some((name, password)) = self.user.clone() else {
            return Ok(());
        };
        let _one_logs_in = self.logging_in.lock().await;
        if self.locked().link.logins > since {
            return Ok(());
        }
        let question = Credentials { name, password };
        let told = self.ask_once::<_, AuthToken>(method::AUTHENTICATE, &question, CONNECT_WITHIN);
        let bad = |_| unreachable("reading the login's answer");
        let token = match told.await {
            Ok(answer) => Some(HeaderValue::try_from(answer.token).map_err(bad)?),
            // A server without logins lets everybody in; `doctor` says so.
            Err(Fault::Told(error)) if says_auth_is_off(&error) => None,
            Err(fault) => return Err(fault.into()),
        };
        let mut state = self.locked();
        state.token = token;
        state.link.logins += 1;
        Ok(())
    }

    /// Whom to ask, and what goes along with a question.
    fn addressed(&self, method: &str) -> (Link, HeaderMap) {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        let mut state = self.locked();
        if state.strikes > self.patience_in_strikes() {
            state.next_member(&self.members);
        }
        // A member that has lost its leader says so at once, instead of when a question times out.
        headers.insert("hasleader", HeaderValue::from_static("true"));
        // Whoever logs in has no token that would be good.
        let token = state.token.as_ref();
        if let Some(token) = token.filter(|_| method != method::AUTHENTICATE) {
            headers.insert("token", token.clone());
        }
        (state.link.clone(), headers)
    }

    /// Where there is no other member, a connection is given up for being slow only if it stays so.
    fn patience_in_strikes(&self) -> usize {
        usize::from(self.members.len() == 1)
    }

    pub(super) fn strike(&self, generation: u64) {
        let mut state = self.locked();
        if state.link.generation == generation {
            state.strikes += 1;
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // Every change is made of steps that cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_member(&mut self, members: &[Member]) {
        self.strikes = 0;
        let member = (self.link.member + 1) % members.len();
        self.link = Link {
            generation: self.link.generation + 1,
            logins: self.link.logins,
            member,
            channel: Channel::to(members[member].clone()),
        };
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// A question under way. Whoever stops waiting for it does so because it takes too long.
struct Asked<'a> {
    client: &'a Client,
    generation: u64,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.client.strike(self.generation);
        }
    }
}

fn says_auth_is_off(error: &Error) -> bool {
    error.to_string().contains("authentication is not enabled")
}
