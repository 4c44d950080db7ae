//! Contiguous copies of fields whose rows are apart, for codecs, which want the values of a field
//! in one piece.

use super::{AppMemory, Slab};
use crate::error::{fail, Result};
use crate::reserve::may_fail;

/// Where such copies are made. The memory is taken when the first of them is needed, and kept.
#[derive(Default)]
pub struct Packed {
    /// By field: whether it has to be in one piece.
    wanted: Vec<bool>,
    slab: Option<Slab>,
    /// The fields of the last call, each in one piece: a copy, or as the application gave it.
    fields: Vec<AppMemory>,
}

impl Packed {
    /// For states whose field `i` has to be in one piece if `wanted[i]`.
    pub fn new(wanted: Vec<bool>) -> Self {
        Packed { wanted, ..Default::default() }
    }

    /// Lists the fields, with memory in one piece for each that has to be in one and is not; the
    /// content of that memory is undefined. Returns false if there is no such field.
    fn place(&mut self, fields: &[AppMemory]) -> Result<bool> {
        let apart = |(field, &wanted): (&AppMemory, &bool)| wanted && !field.rows().is_contiguous();
        if !fields.iter().zip(&self.wanted).any(apart) {
            return Ok(false);
        }
        // Whichever fields are apart next time, the memory is enough.
        let room = fields.iter().map(|field| aligned(field.bytes())).fold(0, u64::saturating_add);
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
            // SAFETY: the slab has room for all fields, each at a place of its own, and nobody else
            // uses it.
            let copy = unsafe { AppMemory::new(slab.address().add(at), bytes) };
            self.fields.push(if apart((field, wanted)) { copy } else { *field });
            at += aligned(bytes) as usize;
        }
        self.slab = Some(slab);
        Ok(true)
    }

    /// The fields to be read: each that has to be in one piece and is not as a copy that is.
    ///
    /// # Safety
    /// The fields are readable host memory, as promised for `AppMemory`.
    pub unsafe fn gathered<'a>(&'a mut self, fields: &'a [AppMemory]) -> Result<&'a [AppMemory]> {
        if !self.place(fields)? {
            return Ok(fields);
        }
        for (field, copy) in fields
            .iter()
            .zip(&self.fields)
            .filter(|(field, copy)| field.address() != copy.address())
        {
            // SAFETY: the field is readable in its rows, by this function's contract; the copy has
            // the bytes of its values.
            unsafe { field.rows().gather(field.address(), copy.address()) };
        }
        Ok(&self.fields)
    }

    /// Lets `body` write the fields, each that has to be in one piece and is not as memory that is,
    /// of which the values are then put into the rows of the field unless `body` failed.
    ///
    /// # Safety
    /// The fields are writable host memory, as promised for `AppMemory`.
    pub unsafe fn scattered(
        &mut self,
        fields: &[AppMemory],
        body: impl FnOnce(&[AppMemory]) -> Result<()>,
    ) -> Result<()> {
        if !self.place(fields)? {
            return body(fields);
        }
        body(&self.fields)?;
        for (field, copy) in fields
            .iter()
            .zip(&self.fields)
            .filter(|(field, copy)| field.address() != copy.address())
        {
            // SAFETY: the field is writable in its rows, by this function's contract; the copy has
            // the bytes of its values.
            unsafe { field.rows().scatter(copy.address(), field.address()) };
        }
        Ok(())
    }
}

/// Copies begin where values of every type may begin.
fn aligned(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(crate::layout::ALIGNMENT)
}
