//! Vectors as long as the schedule: memory that cannot be had is an error, never an abort.

use crate::error::{fail, Result};

/// Room for `len` items.
pub fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    match items.try_reserve_exact(len) {
        Ok(()) => Ok(items),
        Err(_) => {
            fail!(Memory, "no memory to plan {len} items of {} bytes: take fewer time steps or more snapshots", std::mem::size_of::<T>())
        }
    }
}

/// `len` copies of an item.
pub fn filled<T: Clone>(item: T, len: usize) -> Result<Vec<T>> {
    let mut items = with_room(len)?;
    items.resize(len, item);
    Ok(items)
}

/// Appends an item.
pub fn push<T>(items: &mut Vec<T>, item: T) -> Result<()> {
    if items.len() == items.capacity() && items.try_reserve(1).is_err() {
        return fail!(Memory, "no memory to plan more than {} items of {} bytes", items.len(), std::mem::size_of::<T>());
    }
    items.push(item);
    Ok(())
}
