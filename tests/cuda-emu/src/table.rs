//! Handles: objects of one kind, found by an opaque handle or by their index. Indices are not
//! reused before a reset, so that a stale handle is always recognised, and the same calls get the
//! same handles after each reset.

use std::ops::{Index, IndexMut};

/// Distance between two handles: they look like pointers.
const STRIDE: usize = 64;

/// The objects of one kind.
pub struct Table<T> {
    tag: usize,
    slots: Vec<Option<T>>,
}

impl<T> Table<T> {
    /// An empty table whose handles start at `tag`.
    pub fn new(tag: usize) -> Self {
        Self { tag, slots: Vec::new() }
    }

    /// Stores an object.
    pub fn insert(&mut self, object: T) -> usize {
        self.slots.push(Some(object));
        self.slots.len() - 1
    }

    /// Takes an object out, for good.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        self.slots.get_mut(index)?.take()
    }

    /// The handle of an index.
    pub fn handle(&self, index: usize) -> usize {
        self.tag + STRIDE * (index + 1)
    }

    /// The index of a handle, if it stands for a live object.
    pub fn find(&self, handle: usize) -> Option<usize> {
        let distance = handle.checked_sub(self.tag)?;
        let index = (distance / STRIDE).checked_sub(1)?;
        (distance % STRIDE == 0 && self.get(index).is_some()).then_some(index)
    }

    /// The object at an index.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.slots.get(index)?.as_ref()
    }

    /// The object at an index, to change it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// The live objects with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.as_ref()?)))
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.get(index).expect("a live object")
    }
}

impl<T> IndexMut<usize> for Table<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.get_mut(index).expect("a live object")
    }
}
