//! What a session measures on a CUDA device: waiting times, gaps, coding times and spans.

use super::driver::{self, Current};
use super::CudaDevice;
use crate::device::recorder::Log;
use crate::device::{Coding, Device, Recorder, Times};
use crate::error::Result;
use crate::fallible_vec;
use crate::timeline::{Label, Span};
use std::sync::Arc;

impl Recorder for CudaDevice {
    fn times(&mut self) -> Result<Times> {
        let _current = Current::new(self.context)?;
        self.harvest()?;
        Ok(self.timers.times)
    }

    fn time_gaps(&mut self, on: bool) {
        self.gaps = on.then(Vec::new);
    }

    fn gaps(&mut self) -> Result<Vec<f64>> {
        if self.gaps.is_some() {
            let _current = Current::new(self.context)?;
            self.harvest()?;
        }
        Ok(self.gaps.as_mut().map(std::mem::take).unwrap_or_default())
    }

    fn begin_coding(&mut self, coding: Coding, _: f64) -> Result<()> {
        self.timers.begin_coding(coding, self.app_stream())
    }

    fn end_coding(&mut self) -> Result<()> {
        self.timers.end_coding(self.app_stream())
    }

    fn keep_spans(&mut self, on: bool) -> Result<()> {
        if !on {
            self.timers.spans.close();
            self.disk_log.take().iter().for_each(|log| log.close());
            return Ok(());
        }
        let _current = Current::new(self.context)?;
        self.timers.keep_spans(self.upload)?;
        // The stream was idle: the clock of the device has begun just now.
        self.disk_log = Some(Arc::new(Log::new()));
        Ok(())
    }

    /// Before the first call of a sweep, the application's stream is unknown. An idle stream then
    /// records when the host began the action.
    fn begin_action(&mut self, action: Option<Label>) -> Result<()> {
        if !self.timers.keeps_spans() {
            return Ok(());
        }
        let _current = Current::new(self.context)?;
        self.harvest()?;
        let stream = self.app.unwrap_or(self.upload);
        // Nothing can be timed in a capture: the span before goes on.
        if driver::is_capturing(stream)? {
            return Ok(());
        }
        self.timers.begin_action(action, stream)
    }

    fn break_off(&mut self) -> Result<()> {
        let _current = Current::new(self.context)?;
        self.timers.forget_action();
        Ok(())
    }

    fn concerns(&mut self, ts: i64) {
        self.timers.subject.ts = ts;
        self.disk.iter_mut().for_each(|disk| disk.ts = ts);
    }

    fn spans(&mut self, all: bool) -> Result<Vec<Span>> {
        if all && self.timers.keeps_spans() {
            self.finish_calls()?;
            let _current = Current::new(self.context)?;
            self.timers.finish()?;
            self.harvest()?;
        }
        let mut spans = self.timers.spans.take()?;
        if let Some(log) = &self.disk_log {
            let on_disk = log.take()?;
            fallible_vec::more(&mut spans, on_disk.len())?;
            spans.extend(on_disk);
        }
        Ok(spans)
    }
}
