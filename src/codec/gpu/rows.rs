//! Contiguous copies of fields whose rows are apart, by the kernels of kernels/rows.cu.

use super::{blocks, kernels, Kernel, Kernels, Modules};
use crate::device::{AppMemory, Queue};
use crate::error::Result;
use crate::layout::{aligned, Layout};

const THREADS: u32 = 256;

pub(super) const KERNELS: Kernels = kernels!("rows", "rows.cu");

/// Bytes of the contiguous copies of the fields whose memory `is_contiguous` tells not to be contiguous.
pub fn bytes(layout: &Layout, are_apart: &[bool]) -> u64 {
    let apart = layout.bytes.iter().zip(are_apart).filter(|(_, &is_apart)| is_apart);
    apart.map(|(&bytes, _)| aligned(bytes)).fold(0, u64::saturating_add)
}

/// The kernels for the fields of one layout.
pub struct RowKernels {
    /// For each field, the kernels that copy from rows and to rows.
    of: Vec<[Kernel; 2]>,
    layout: Layout,
}

impl RowKernels {
    /// Loads the kernels into `modules`.
    pub fn new(layout: &Layout, modules: &mut Modules) -> Result<Self> {
        let kernels = layout.fields.iter().map(|field| {
            let source = KERNELS.of(field.scalar);
            let gather = modules.kernel(&source, c"rows_gather", THREADS)?;
            Ok([gather, modules.kernel(&source, c"rows_scatter", THREADS)?])
        });
        Ok(RowKernels { of: kernels.collect::<Result<_>>()?, layout: layout.clone() })
    }

    /// Returns the addresses of the contiguous values of the fields: of the fields themselves, or of copies in the
    /// memory at `copies`, a multiple of 256.
    pub fn places(&self, fields: &[AppMemory], copies: u64) -> Vec<u64> {
        let mut end = copies;
        let place = |(field, &bytes): (&AppMemory, &u64)| match field.rows().is_contiguous() {
            true => field.address() as u64,
            false => {
                let at = end;
                end += aligned(bytes);
                at
            }
        };
        fields.iter().zip(&self.layout.bytes).map(place).collect()
    }

    /// Enqueues copies of the fields whose rows are apart to their `places`.
    pub fn gather(&self, queue: &Queue, fields: &[AppMemory], places: &[u64]) -> Result<()> {
        self.copy(queue, fields, places, 0)
    }

    /// Enqueues copies from `places` to the rows of these fields. Nothing is written between the rows.
    pub fn scatter(&self, queue: &Queue, fields: &[AppMemory], places: &[u64]) -> Result<()> {
        self.copy(queue, fields, places, 1)
    }

    fn copy(&self, queue: &Queue, fields: &[AppMemory], places: &[u64], way: usize) -> Result<()> {
        let apart = |&i: &usize| !fields[i].rows().is_contiguous();
        for i in (0..fields.len()).filter(apart) {
            let value = self.layout.fields[i].scalar.bytes();
            let (values, rows) = (self.layout.bytes[i] / value, fields[i].rows().in_values(value));
            let (field, place) = (fields[i].address() as u64, places[i]);
            let [from, to] = [[field, place], [place, field]][way];
            // A warp copies a row.
            let count = blocks(values / rows[0], THREADS / 32, 1);
            self.of[i][way].launch(queue, count, &[&from, &to, &values, &rows])?;
        }
        Ok(())
    }
}
