//! The proxy's thread: waits for sockets, timers and new plans, and moves bytes as the plan says.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Control;
use super::link::{Link, Way};
use super::plan::{Mode, Plan};

/// The server is on this machine: it takes a connection at once or not at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

const WAYS: [Way; 2] = [Way::Request, Way::Reply];

#[derive(Debug)]
pub(super) struct Engine {
    address: SocketAddr,
    server: SocketAddr,
    control: Arc<Control>,
    /// None during a cut, so that the kernel itself refuses.
    listener: Option<TcpListener>,
    links: Vec<Link>,
    plan: Plan,
    chunk: Vec<u8>,
}

impl Engine {
    pub(super) fn new(
        address: SocketAddr,
        server: SocketAddr,
        control: Arc<Control>,
    ) -> io::Result<Engine> {
        Ok(Engine {
            address,
            server,
            control,
            listener: Some(listen(address)?),
            links: Vec::new(),
            plan: Plan::default(),
            chunk: vec![0; 64 * 1024],
        })
    }

    pub(super) fn run(mut self) {
        loop {
            self.adopt_plan();
            self.accept();
            // Before bytes move too: whoever has had an answer is known to be here.
            self.report();
            self.pump();
            self.report();
            if self.plan.mode == Mode::End || self.wait().is_err() {
                return;
            }
        }
    }

    /// Takes over a changed plan and says that it is in force.
    fn adopt_plan(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.control.bell, &mut count);
        let plan = self.control.locked(|state| state.plan.clone());
        if plan.generation == self.plan.generation {
            return;
        }
        let healed = plan.is_harmless();
        self.plan = plan;
        if healed {
            self.links.retain(|link| !link.broken);
            let now = Instant::now();
            for link in &mut self.links {
                link.requests.hasten(now);
                link.replies.hasten(now);
            }
        }
        let outcome = self.enter_mode();
        let generation = self.plan.generation;
        self.control.locked(|state| {
            state.in_force = generation;
            state.failure = outcome.err().map(|error| error.kind());
        });
        self.control.changed.notify_all();
    }

    fn enter_mode(&mut self) -> io::Result<()> {
        match self.plan.mode {
            Mode::Cut | Mode::End => {
                self.listener = None;
                self.links.clear();
            }
            Mode::BlackHole => {
                for link in &mut self.links {
                    let lost = [link.requests.discard(), link.replies.discard()];
                    link.broken |= lost.contains(&true);
                }
            }
            Mode::Pass => {}
        }
        if self.listener.is_none() && !matches!(self.plan.mode, Mode::Cut | Mode::End) {
            self.listener = Some(listen(self.address)?);
        }
        Ok(())
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        while let Ok((client, _)) = listener.accept() {
            let passes = self.plan.mode == Mode::Pass;
            let server = passes.then(|| TcpStream::connect_timeout(&self.server, CONNECT_WITHIN));
            // A server that refuses makes the client's connection end, as without a proxy.
            let Ok(server) = server.transpose() else {
                continue;
            };
            self.links.extend(Link::new(client, server));
        }
    }

    fn pump(&mut self) {
        let now = Instant::now();
        for mut link in std::mem::take(&mut self.links) {
            match self.pump_link(&mut link, now) {
                Ok(()) if link.is_over() => link.part(),
                // Dropped, which resets both sides.
                Err(_) if self.plan.mode == Mode::Pass => {}
                // During a black hole the other side must not learn of it.
                _ => self.links.push(link),
            }
        }
    }

    fn pump_link(&mut self, link: &mut Link, now: Instant) -> io::Result<()> {
        for way in WAYS {
            while link.flow_ref(way).wants_more() {
                let read = link.read(way, &mut self.chunk);
                if read.is_err() {
                    link.flow(way).ended = true;
                }
                let Some(length) = read? else { break };
                self.take(link, way, length, now)?;
            }
            if self.plan.mode == Mode::BlackHole {
                link.broken |= link.flow_ref(way).ended;
                continue;
            }
            link.write_due(way, now)?;
        }
        Ok(())
    }

    /// Decides what becomes of the bytes just read.
    fn take(&mut self, link: &mut Link, way: Way, length: usize, now: Instant) -> io::Result<()> {
        let swallowed = match way {
            _ if self.plan.mode == Mode::BlackHole => true,
            Way::Request => {
                link.awaits_reply = true;
                false
            }
            Way::Reply => self.loses(link)?,
        };
        if swallowed {
            link.broken = true;
            return Ok(());
        }
        let delay = match way {
            Way::Request => self.plan.delay_requests,
            Way::Reply => self.plan.delay_replies,
        };
        link.flow(way).push(now + delay, &self.chunk[..length]);
        Ok(())
    }

    /// Whether what the server just said on this link is to be lost; an error resets the link.
    fn loses(&mut self, link: &mut Link) -> io::Result<bool> {
        let begins_reply = std::mem::take(&mut link.awaits_reply);
        let Some(loss) = &mut self.plan.loss else {
            return Ok(link.deaf);
        };
        let concerned = loss.client.is_none_or(|client| client == link.peer);
        let hit = concerned && loss.left > 0 && (begins_reply || !loss.counts());
        if !hit || link.deaf {
            return Ok(link.deaf);
        }
        if loss.counts() {
            loss.left -= 1;
        }
        let (left, reset, generation) = (loss.left, loss.reset, self.plan.generation);
        self.control.locked(|state| {
            state.lost_replies += 1;
            // The next change of something else must not arm it again.
            if let Some(loss) = &mut state.plan.loss
                && state.plan.generation == generation
            {
                loss.left = left;
            }
        });
        link.deaf = true;
        if reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(true)
    }

    fn report(&self) {
        let clients = self.links.iter().map(|link| link.peer).collect();
        let on_the_way = self.links.iter().map(Link::on_the_way).sum();
        self.control.locked(|state| {
            state.clients = clients;
            state.on_the_way = on_the_way;
        });
    }

    /// Sleeps until a socket, a timer or the bell has something to say.
    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![PollFd::from_borrowed_fd(
            self.control.bell.as_fd(),
            PollFlags::IN,
        )];
        fds.extend(
            self.listener
                .iter()
                .map(|listener| PollFd::new(listener, PollFlags::IN)),
        );
        let now = Instant::now();
        let mut first_due: Option<Instant> = None;
        for (link, way) in self
            .links
            .iter()
            .flat_map(|link| WAYS.map(|way| (link, way)))
        {
            let flow = link.flow_ref(way);
            // A finished socket would report its end for ever, so it is left out altogether.
            let source = link.source(way).filter(|_| flow.wants_more());
            fds.extend(source.map(|source| PollFd::new(source, PollFlags::IN)));
            match flow.due() {
                Some(due) if due <= now => {
                    let target = link.target(way);
                    fds.extend(target.map(|target| PollFd::new(target, PollFlags::OUT)));
                }
                due => first_due = [first_due, due].into_iter().flatten().min(),
            }
        }
        let pause = first_due.map(|due| timespec(due.saturating_duration_since(now)));
        match poll(&mut fds, pause.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn timespec(duration: Duration) -> Timespec {
    // A little more, or the last moment before the due time is spent spinning.
    let duration = duration + Duration::from_micros(50);
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
