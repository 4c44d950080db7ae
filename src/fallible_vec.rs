//! Vectors and maps as long as a schedule, a field or a file: memory that the system refuses is an
//! error, never an abort. A vector that is always shorter than `reserve::LARGEST` bytes, and of
//! which a call has few, does not need these functions.

use crate::error::{self, Code, Error, Result};
use crate::reserve::may_fail;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Returns the error; the caller adds what the items are for (`Error::within`).
#[cold]
fn refused<T>(items: usize) -> Error {
    let bytes = std::mem::size_of::<T>();
    let text = format_args!("no memory for {items} items of {bytes} bytes: free memory, or take fewer time steps, snapshots or arrays");
    error::of(Code::Memory, text)
}

/// Returns an empty vector with room for `len` items.
pub fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    match may_fail(|| items.try_reserve_exact(len)) {
        Ok(()) => Ok(items),
        Err(_) => Err(refused::<T>(len)),
    }
}

/// Returns `len` copies of an item.
pub fn filled<T: Clone>(item: T, len: usize) -> Result<Vec<T>> {
    let mut items = with_room(len)?;
    items.resize(len, item);
    Ok(items)
}

/// Returns a copy of a slice.
pub fn copied<T: Copy>(items: &[T]) -> Result<Vec<T>> {
    let mut copy = with_room(items.len())?;
    copy.extend_from_slice(items);
    Ok(copy)
}

/// Returns the items of an iterator of known length.
pub fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut collected = with_room(items.len())?;
    for item in items {
        push(&mut collected, item)?;
    }
    Ok(collected)
}

/// Number of items for which a new map has room.
const FEW: usize = 28;

/// Puts an item into a map.
pub fn insert<K: Eq + Hash, V, S: BuildHasher>(
    items: &mut HashMap<K, V, S>,
    key: K,
    item: V,
) -> Result<()> {
    let more = if items.capacity() == 0 { FEW } else { 1 };
    if items.len() == items.capacity() && may_fail(|| items.try_reserve(more)).is_err() {
        return Err(refused::<(K, V)>(items.len() + 1));
    }
    items.insert(key, item);
    Ok(())
}

/// Appends an item.
#[inline]
pub fn push<T>(items: &mut Vec<T>, item: T) -> Result<()> {
    more(items, 1)?;
    items.push(item);
    Ok(())
}

/// Makes room for `count` more items.
#[inline]
pub fn more<T>(items: &mut Vec<T>, count: usize) -> Result<()> {
    match items.capacity() - items.len() < count {
        true => grow(items, count),
        false => Ok(()),
    }
}

#[cold]
fn grow<T>(items: &mut Vec<T>, count: usize) -> Result<()> {
    may_fail(|| items.try_reserve(count))
        .map_err(|_| refused::<T>(items.len().saturating_add(count)))
}

/// Makes room for `len` items in all.
pub fn up_to<T>(items: &mut Vec<T>, len: usize) -> Result<()> {
    let count = len.saturating_sub(items.len());
    more(items, count)
}

/// Appends a formatted text.
pub fn write(text: &mut String, arguments: std::fmt::Arguments<'_>) -> Result<()> {
    let mut growing = Growing { text, refused: None };
    // A formatting error stands for refused memory, whose error is in `growing`.
    let _ = std::fmt::Write::write_fmt(&mut growing, arguments);
    growing.refused.map_or(Ok(()), Err)
}

/// A text that grows as far as there is memory, and keeps the error if memory is refused.
struct Growing<'a> {
    text: &'a mut String,
    refused: Option<Error>,
}

impl std::fmt::Write for Growing<'_> {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        if may_fail(|| self.text.try_reserve(more.len())).is_err() {
            self.refused = Some(refused::<u8>(self.text.len() + more.len()));
            return Err(std::fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// Appends an item to a queue.
#[inline]
pub fn push_back<T>(items: &mut VecDeque<T>, item: T) -> Result<()> {
    one_more(items)?;
    items.push_back(item);
    Ok(())
}

/// Makes room for one more item of a queue.
#[inline]
pub fn one_more<T>(items: &mut VecDeque<T>) -> Result<()> {
    if items.len() == items.capacity() && may_fail(|| items.try_reserve(1)).is_err() {
        return Err(refused::<T>(items.len() + 1));
    }
    Ok(())
}
