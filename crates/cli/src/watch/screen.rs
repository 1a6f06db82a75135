//! The full-screen view of `watch`.

use std::time::Duration;

use lockkeeper::Keeper;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame};
use rustix::process::Signal;
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr;

use super::LOOK;
use crate::exit::{self, Failure};
use crate::ls;
use crate::signals::Signals;
use crate::table::{self, COLUMNS, TITLES};

/// An engine that takes longer is shown as not answering, and the keys work all the same.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is on the screen.
struct View {
    place: String,
    pattern: String,
    rows: Vec<table::Row>,
    /// Why the rows may be out of date.
    trouble: Option<String>,
    state: TableState,
}

pub(super) async fn watch(keeper: &Keeper, pattern: Option<&str>) -> Result<u8, Failure> {
    let ended = [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT];
    let mut signals = Signals::listen(&ended)?;
    let mut events = keyboard();
    let mut terminal = ratatui::try_init()?;
    let mut view = View {
        place: keeper.place(),
        pattern: pattern.unwrap_or("*").to_owned(),
        rows: Vec::new(),
        trouble: None,
        state: TableState::default(),
    };
    let outcome = tokio::select! {
        shown = show(keeper, &mut view, &mut terminal, &mut events) => shown.map(|()| exit::OK),
        arrived = signals.next() => arrived
            .map(|arrived| exit::SIGNAL + arrived.signal.as_raw().unsigned_abs() as u8)
            .map_err(Failure::from),
    };
    ratatui::restore();
    outcome
}

/// Looks and draws until a key says stop.
async fn show(
    keeper: &Keeper,
    view: &mut View,
    terminal: &mut DefaultTerminal,
    events: &mut mpsc::Receiver<Event>,
) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(event) if !view.stops_at(&event) => {}
                _ => return Ok(()),
            },
            () = async { ticks.tick().await; view.look(keeper).await } => {}
        }
        terminal.draw(|frame| view.draw(frame))?;
    }
}

/// Keys come from a thread that blocks on the terminal; it ends with the process.
fn keyboard() -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    events
}

impl View {
    async fn look(&mut self, keeper: &Keeper) {
        let pattern = self.pattern.clone();
        match tokio::time::timeout(PATIENCE, ls::matching(keeper, Some(&pattern))).await {
            Ok(Ok(views)) => {
                self.rows = table::rows(&views);
                self.trouble = None;
            }
            Ok(Err(failure)) => self.trouble = Some(failure.to_string()),
            Err(_elapsed) => self.trouble = Some("the engine does not answer".into()),
        }
    }

    /// Whether the event ends the view; arrows scroll.
    fn stops_at(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return false };
        if key.kind == KeyEventKind::Release {
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Down | KeyCode::Char('j') => self.state.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.state.select_previous(),
            KeyCode::PageDown => self.state.scroll_down_by(10),
            KeyCode::PageUp => self.state.scroll_up_by(10),
            KeyCode::Home => self.state.select_first(),
            KeyCode::End => self.state.select_last(),
            _ => {}
        }
        false
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.headline(), head);
        if self.rows.is_empty() {
            frame.render_widget(
                Line::from("nobody holds or waits for such a lock").dim(),
                body,
            );
        } else {
            let rows = self.table(body.width.into());
            frame.render_stateful_widget(rows, body, &mut self.state);
        }
        let footer = match &self.trouble {
            Some(trouble) => Line::from(crate::visible::visible(trouble)).fg(Color::Red),
            None => Line::from("q quits, arrows scroll").dim(),
        };
        frame.render_widget(footer, foot);
    }

    fn headline(&self) -> Line<'static> {
        let holding = self.rows.iter().filter(|row| row[1] == "holds").count();
        let waiting = self.rows.len() - holding;
        let place = crate::visible::visible(&self.place);
        let pattern = crate::visible::visible(&self.pattern);
        Line::from(vec![
            Span::from("lockkeeper ").bold(),
            Span::from(format!(
                "{place}  {pattern}  {holding} holding, {waiting} waiting"
            )),
        ])
    }

    fn table(&self, width: usize) -> Table<'static> {
        let mut widths = TITLES.map(UnicodeWidthStr::width);
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        table::fit(&mut widths, width);
        let rows = self.rows.iter().map(|row| {
            let cells = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| Cell::from(table::cut(cell, width)));
            let style = match row[1].as_str() {
                "holds" => Style::new(),
                _ => Style::new().fg(Color::Yellow),
            };
            Row::new(cells).style(style)
        });
        let lengths: [Constraint; COLUMNS] =
            widths.map(|width| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
        Table::new(rows.collect::<Vec<_>>(), lengths)
            .column_spacing(2)
            .header(Row::new(TITLES).style(Style::new().bold()))
            .row_highlight_style(Style::new().reversed())
    }
}
