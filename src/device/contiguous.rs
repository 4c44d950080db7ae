//! Contiguous copies of fields with gaps between their rows, for codecs, which need the values of a
//! field in one piece.

use super::{AppMemory, Slab};
use crate::error::{fail, Result};
use crate::layout::aligned;
use crate::reserve::may_fail;

/// Memory for contiguous copies. Allocated when the first copy is needed, and kept.
#[derive(Default)]
pub struct Contiguous {
    /// For each field, whether the codec needs the field in one piece.
    wanted: Vec<bool>,
    slab: Option<Slab>,
    /// The fields of the last call, each in one piece: the application's memory or a copy.
    fields: Vec<AppMemory>,
}

impl Contiguous {
    /// Makes the memory for states whose field `i` has to be in one piece if `wanted[i]`.
    pub fn new(wanted: Vec<bool>) -> Self {
        Contiguous { wanted, ..Default::default() }
    }

    /// Sets `self.fields`: a field that has to be in one piece and is not gets memory of this
    /// object, of undefined content; all other fields keep their memory. Returns false if no field
    /// needs a copy.
    fn place(&mut self, fields: &[AppMemory]) -> Result<bool> {
        let apart = |(field, &wanted): (&AppMemory, &bool)| wanted && !field.rows().is_contiguous();
        if !fields.iter().zip(&self.wanted).any(apart) {
            return Ok(false);
        }
        // The memory is enough whichever fields have gaps in the next call.
        let room =
            fields.iter().map(|field| aligned(field.bytes() as u64)).fold(0, u64::saturating_add);
        let slab = match self.slab.take().filter(|slab| slab.len() as u64 >= room) {
            Some(slab) => slab,
            None => Slab::new(room)?,
        };
        self.fields.clear();
        if may_fail(|| self.fields.try_reserve_exact(fields.len())).is_err() {
            return fail!(Memory, "no memory to list {} fields", fields.len());
        }
        let mut at = 0;
        for (field, wanted) in fields.iter().zip(&self.wanted) {
            let bytes = field.bytes();
            // SAFETY: this object's slab has room for each field at an offset of its own.
            let copy = unsafe { AppMemory::new(slab.address().add(at), bytes) };
            self.fields.push(if apart((field, wanted)) { copy } else { *field });
            at += aligned(bytes as u64) as usize;
        }
        self.slab = Some(slab);
        Ok(true)
    }

    /// Returns those fields that `concerned` accepts, by their numbers, and that have a copy, each
    /// with its copy.
    fn copies<'a>(
        &'a self,
        fields: &'a [AppMemory],
        concerned: impl Fn(usize) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a AppMemory, &'a AppMemory)> {
        let pairs = fields.iter().zip(&self.fields).enumerate();
        let apart = |(field, copy): &(&AppMemory, &AppMemory)| field.address() != copy.address();
        pairs.filter(move |(i, _)| concerned(*i)).map(|(_, pair)| pair).filter(apart)
    }

    /// Lets `body` read the fields whose numbers `reads` accepts, and write those that `writes`
    /// accepts. A field that has to be in one piece and is not is replaced by contiguous memory: it
    /// has the values of a field that is read, and its values are copied to the rows of a field that
    /// is written, unless `body` failed.
    ///
    /// # Safety
    /// The fields are host memory, as promised for `AppMemory`: readable, and writable where
    /// `writes` accepts them.
    pub unsafe fn in_one_piece<R>(
        &mut self,
        fields: &[AppMemory],
        reads: impl Fn(usize) -> bool,
        writes: impl Fn(usize) -> bool,
        body: impl FnOnce(&[AppMemory]) -> Result<R>,
    ) -> Result<R> {
        if !self.place(fields)? {
            return body(fields);
        }
        for (field, copy) in self.copies(fields, reads) {
            // SAFETY: by this function's contract; the copy has as many bytes as the values.
            unsafe { field.rows().gather(field.address(), copy.address()) };
        }
        let result = body(&self.fields)?;
        for (field, copy) in self.copies(fields, writes) {
            // SAFETY: by this function's contract; the copy has as many bytes as the values.
            unsafe { field.rows().scatter(copy.address(), field.address()) };
        }
        Ok(result)
    }
}
