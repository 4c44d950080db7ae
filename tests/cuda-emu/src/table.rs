//! Tables of objects of one kind, found by an opaque handle or by an index. Indices are not reused
//! before a reset, so that the handle of a removed object is always recognised. The same calls get
//! the same handles after each reset.

use std::ops::{Index, IndexMut};

/// The distance between two handles, which look like pointers.
const STRIDE: usize = 64;

/// The objects of one kind.
pub struct Table<T> {
    tag: usize,
    slots: Vec<Option<T>>,
}

impl<T> Table<T> {
    /// Makes an empty table whose handles start at `tag`.
    pub fn new(tag: usize) -> Self {
        Self { tag, slots: Vec::new() }
    }

    /// Stores an object and returns its index.
    pub fn insert(&mut self, object: T) -> usize {
        self.slots.push(Some(object));
        self.slots.len() - 1
    }

    /// Removes an object and returns it.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        self.slots.get_mut(index)?.take()
    }

    /// Returns the handle of an index.
    pub fn handle(&self, index: usize) -> usize {
        self.tag + STRIDE * (index + 1)
    }

    /// Returns the index of a handle, if the handle stands for a live object.
    pub fn find(&self, handle: usize) -> Option<usize> {
        let distance = handle.checked_sub(self.tag)?;
        let index = (distance / STRIDE).checked_sub(1)?;
        (distance % STRIDE == 0 && self.get(index).is_some()).then_some(index)
    }

    /// Returns the object at an index.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.slots.get(index)?.as_ref()
    }

    /// Returns the object at an index for a change.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// Returns the live objects with their indices.
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
