//! Decides which operation runs next. The rules: the operations of a stream run in order, and an
//! operation runs after all operations in its list `after`. Among the orders that the rules allow,
//! the mode and random numbers decide.

use crate::driver::{fatal, Driver};
use crate::execute::Progress;
use crate::host_thread;
use crate::settings::Mode;
use crate::stream::{Op, Point};

/// The number of consecutive queries without success after which the queried operation must run.
const PATIENCE: u32 = 4;
/// Virtual seconds that a query without success takes.
const QUERY_TIME: f64 = 1e-6;
/// In the mode `Timed`, the number of consecutive queries without success after which the host's
/// clock moves to the end of the queried operation.
const TIMED_PATIENCE: u32 = 64;

/// The next step that the completion of an operation needs.
enum Next {
    /// The first operation of this stream must run.
    Run(usize),
    /// A host function must return, or the program must set a number in memory.
    Host,
    /// The operation can never complete.
    Never,
}

impl Driver {
    /// Runs the operations that the scheduler lets run at this API call; every call begins with it.
    pub fn tick(&mut self) {
        self.collect_host();
        match self.settings.mode {
            Mode::Late => {}
            Mode::Timed => self.run_until(self.clock.host),
            Mode::Early => while self.run_first() {},
            Mode::Random => self.run_some(),
        }
    }

    /// Random mode: half of the calls run nothing, a quarter run one piece of an operation, and a
    /// quarter run up to eight pieces.
    fn run_some(&mut self) {
        if self.active.is_empty() {
            return;
        }
        let dice = self.rng.next();
        let pieces = [0, 0, 1, 1 + (dice >> 8) % 8][(dice % 4) as usize];
        for _ in 0..pieces {
            let Some(stream) = self.draw() else { return };
            self.run(stream);
        }
    }

    /// Runs the first operation of the first stream that can run. Returns whether a stream could
    /// run.
    fn run_first(&mut self) -> bool {
        let first = self.active.iter().copied().find(|stream| self.ready(*stream));
        first.inspect(|stream| self.run(*stream)).is_some()
    }

    /// Draws a stream that can run, with a probability proportional to its weight.
    fn draw(&mut self) -> Option<usize> {
        let weight = |driver: &Self, stream: usize| {
            if driver.ready(stream) {
                driver.streams[stream].weight
            } else {
                0
            }
        };
        let total: usize = self.active.iter().map(|stream| weight(self, *stream)).sum();
        if total == 0 {
            return None;
        }
        let mut left = self.rng.below(total);
        for stream in self.active.iter().copied() {
            let weight = weight(self, stream);
            if left < weight {
                return Some(stream);
            }
            left -= weight;
        }
        None
    }

    /// Returns whether the first operation of a stream can run.
    fn ready(&self, stream: usize) -> bool {
        let stream = &self.streams[stream];
        !stream.in_flight
            && stream.queue.front().is_some_and(|op| {
                op.after.iter().all(|point| self.log.done(point.op)) && !op.awaits_value()
            })
    }

    /// Returns the next step that an operation which has not run needs.
    fn next(&self, target: Point) -> Next {
        let mut stream = target.stream;
        // Each turn of the loop visits the first operation of one queue, so a chain that is longer
        // than the number of queues has a cycle.
        for _ in 0..=self.active.len() {
            let Some(state) = self.streams.get(stream) else { return Next::Never };
            let Some(head) = state.queue.front() else { return Next::Never };
            if state.in_flight {
                return Next::Host;
            }
            match head.after.iter().find(|point| !self.log.done(point.op)) {
                None if head.awaits_value() => return Next::Host,
                None => return Next::Run(stream),
                Some(point) => stream = point.stream,
            }
        }
        Next::Never
    }

    /// Runs operations until `target` has run. Returns `false` if a host function must return
    /// first.
    pub fn advance(&mut self, target: Point) -> bool {
        self.collect_host();
        while !self.log.done(target.op) {
            let needed = match self.next(target) {
                Next::Run(stream) => stream,
                Next::Host => return false,
                Next::Never => {
                    fatal("deadlock: the host waits for an operation that can never run")
                }
            };
            let stream = match self.settings.mode {
                Mode::Timed => self.earliest(f64::INFINITY),
                Mode::Random if self.rng.below(2) == 1 => self.draw(),
                _ => None,
            };
            self.run(stream.unwrap_or(needed));
        }
        true
    }

    /// Moves the host's clock to the end of an operation for which the host has waited.
    pub fn waited(&mut self, target: Point) {
        let wait = self.log.end(target.op) - self.clock.host;
        if wait > 0.0 {
            self.clock.host += wait;
            self.counters.totals.host_wait_s += wait;
        }
    }

    /// Returns whether an operation is complete at the host's virtual time.
    pub fn complete(&self, target: Point) -> bool {
        self.log.done(target.op)
            && (self.settings.mode != Mode::Timed || self.log.end(target.op) <= self.clock.host)
    }

    /// Answers a query whether an operation is complete. Many queries without success make the
    /// operation run.
    pub fn query(&mut self, target: Point) -> bool {
        self.collect_host();
        if self.complete(target) {
            self.queries = 0;
            return true;
        }
        self.queries += 1;
        if self.settings.mode == Mode::Timed {
            self.query_time(target);
        } else if self.queries >= PATIENCE {
            self.queries = 0;
            if let Next::Run(stream) = self.next(target) {
                self.run(stream);
            }
        }
        false
    }

    fn query_time(&mut self, target: Point) {
        self.clock.host += QUERY_TIME;
        if self.queries >= TIMED_PATIENCE && self.advance(target) {
            self.queries = 0;
            self.clock.host = self.clock.host.max(self.log.end(target.op));
        }
    }

    /// Runs all operations that start before the virtual time `limit`.
    pub fn run_until(&mut self, limit: f64) {
        while let Some(stream) = self.earliest(limit) {
            self.run(stream);
        }
    }

    /// Returns the stream whose first operation starts first; among equal times the stream that has
    /// waited longest.
    fn earliest(&self, limit: f64) -> Option<usize> {
        let ready = self.active.iter().copied().filter(|stream| self.ready(*stream));
        let timed = ready.filter_map(|stream| {
            let head = self.streams[stream].queue.front()?;
            let (ready, start) = self.start_times(stream, head);
            (start <= limit).then_some((start, ready, head.id, stream))
        });
        timed
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)))
            .map(|best| best.3)
    }

    /// Runs the first operation of a stream, or a part of the operation.
    fn run(&mut self, stream: usize) {
        let mut op = self.streams[stream].queue.pop_front().expect("an operation to run");
        let context = self.streams[stream].context;
        let progress = if self.contexts[context].sticky.is_some() {
            Ok(Progress::Finished)
        } else {
            self.execute(&mut op)
        };
        let progress = progress.unwrap_or_else(|code| {
            self.contexts[context].sticky = Some(code);
            Progress::Finished
        });
        if progress == Progress::Finished {
            return self.finish(stream, &op);
        }
        let target = &mut self.streams[stream];
        target.in_flight = progress == Progress::Started;
        target.queue.push_front(op);
        self.collect_host();
    }

    /// Updates log, clock and counters after an operation has run.
    fn finish(&mut self, stream: usize, op: &Op) {
        let end = self.pass_time(stream, op);
        self.log.close(op.id, end);
        self.counters.totals.pending -= 1;
        self.counters.totals.executed += 1;
        if self.streams[stream].queue.is_empty() {
            self.active.retain(|other| *other != stream);
            self.bury(stream);
        }
    }

    /// Ends the operations whose host functions have returned.
    fn collect_host(&mut self) {
        let flying = self.active.iter().copied().find(|stream| self.streams[*stream].in_flight);
        if flying.is_none() {
            return;
        }
        for id in host_thread::collect() {
            let head =
                |stream: &usize| self.streams[*stream].queue.front().is_some_and(|op| op.id == id);
            let Some(stream) = self.active.iter().copied().find(head) else { continue };
            self.streams[stream].in_flight = false;
            let op = self.streams[stream].queue.pop_front().expect("a host function");
            self.finish(stream, &op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::Action;
    use crate::settings::Settings;

    fn driver(mode: Mode) -> (Driver, usize, usize) {
        let mut driver =
            Driver::new(Settings { seed: 0, mode, devices: 1, memory: 1, ..Settings::from_env() });
        driver.primary_retain(0).unwrap();
        let (a, b) = (driver.new_stream(0, false, false), driver.new_stream(0, false, false));
        (driver, a, b)
    }

    /// The check must detect a cycle. The API cannot make a cycle, since a wait captures an earlier
    /// record; so the test makes one by hand.
    #[test]
    fn a_cycle_of_waits_is_never_run() {
        let (mut driver, a, b) = driver(Mode::Late);
        let first = driver.enqueue(a, Action::Wait, Vec::new());
        let last = driver.enqueue(b, Action::Wait, vec![Point { stream: a, op: first }]);
        driver.streams[a].queue[0].after.push(Point { stream: b, op: last });
        assert!(matches!(driver.next(Point { stream: b, op: last }), Next::Never));
    }

    #[test]
    fn a_chain_over_streams_starts_at_its_end() {
        let (mut driver, a, b) = driver(Mode::Late);
        let first = driver.enqueue(a, Action::Wait, Vec::new());
        let last = driver.enqueue(b, Action::Wait, vec![Point { stream: a, op: first }]);
        let target = Point { stream: b, op: last };
        assert!(matches!(driver.next(target), Next::Run(stream) if stream == a));
        assert!(driver.advance(target) && driver.log.done(first) && driver.active.is_empty());
    }
}
