//! Races: the last accesses of each word, as ThreadSanitizer keeps them (Serebryany and
//! Iskhodzhanov 2009). A word remembers four accesses. So every report is a race, and a race may be
//! missed in one run where a word has more readers; other seeds find it.

use super::clock::{Known, Thread, INNER};
use super::inst::LANES;
use std::collections::HashMap;

/// Number of accesses that a word remembers.
const DEPTH: usize = 4;
/// Words of a page of cells.
const PAGE: u64 = 256;

const WRITE: u32 = 16;
const STRONG: u32 = 32;
/// The bits that a word's value is mixed to.
const VALUE: u32 = 0xFFFF_FF00;

/// An access to a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access {
    /// Who.
    pub thread: Thread,
    /// When, by the thread's own clock.
    pub clock: u32,
    /// The instruction.
    pub at: u32,
    /// The bytes of the word, [`WRITE`], [`STRONG`], [`VALUE`]; 0: no access.
    kind: u32,
}

impl Access {
    /// Makes an access to the bytes of a word in the mask `bytes`.
    pub fn new(thread: Thread, clock: u32, at: u32, bytes: u32, write: bool, strong: bool) -> Self {
        let kind = bytes | if write { WRITE } else { 0 } | if strong { STRONG } else { 0 };
        Self { thread, clock, at, kind }
    }

    /// Notes the word that a plain store writes.
    pub fn with_value(mut self, word: u32) -> Self {
        self.kind |= word.wrapping_mul(0x9E37_79B1) & VALUE;
        self
    }

    /// Returns whether both are plain stores of the same value to the same bytes. Whichever comes
    /// last, the word is the same.
    fn stores_the_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.writes() && !self.is_strong()
    }

    /// Returns whether this access writes.
    pub fn writes(&self) -> bool {
        self.kind & WRITE != 0
    }

    fn bytes(&self) -> u32 {
        self.kind & 15
    }

    fn is_strong(&self) -> bool {
        self.kind & STRONG != 0
    }
}

/// The accesses of a word.
pub type Cell = [Access; DEPTH];

/// What a thread knows, to tell which accesses came before.
pub struct View<'a> {
    /// The thread.
    pub thread: Thread,
    /// Number of threads of a block, in whole warps.
    pub span: u32,
    /// The clock of the block's last barrier.
    pub floor: u32,
    /// What the thread knows of the lanes of its warp.
    pub warp: &'a [u32; LANES],
    /// What it knows of other threads.
    pub known: Option<&'a Known>,
}

impl View<'_> {
    fn knows(&self, access: &Access) -> bool {
        let block = access.thread / self.span;
        if block == self.thread / self.span {
            if access.clock < self.floor {
                return true;
            }
            let same_warp = access.thread / LANES as u32 == self.thread / LANES as u32;
            if same_warp && access.clock <= self.warp[access.thread as usize % LANES] {
                return true;
            }
        }
        self.known
            .is_some_and(|known| known.has(access.thread, block, access.clock, access.is_strong()))
    }
}

/// Adds an access to a word of which only threads of this block have other accesses that matter, if
/// `of_block`. Returns an earlier access with which it races.
#[inline]
pub fn check(
    cell: &mut Cell,
    new: Access,
    view: &View,
    of_block: bool,
    draw: u32,
) -> Option<Access> {
    let (mut place, mut race) = (None, None);
    for (i, old) in cell.iter().enumerate() {
        if old.kind == 0 || of_block && old.thread / view.span != new.thread / view.span {
            place = Some(i);
            continue;
        }
        let covered = old.bytes() & !new.bytes() == 0;
        if old.thread == new.thread {
            // A later access of the thread stands for an earlier one if it is at least as strict.
            if covered && (new.writes() || !old.writes()) && (!new.is_strong() || old.is_strong()) {
                place = Some(i);
            }
            continue;
        }
        if view.knows(old) {
            if covered && (new.writes() || !old.writes()) {
                place = Some(i);
            }
        } else if old.bytes() & new.bytes() != 0
            && (old.writes() || new.writes())
            && !(old.is_strong() && new.is_strong())
            && !old.stores_the_same(&new)
        {
            race = Some(*old);
        }
    }
    cell[place.unwrap_or(draw as usize % DEPTH)] = new;
    race
}

/// The cells of global memory, which are made when they are needed.
#[derive(Default)]
pub struct Cells {
    pages: Vec<Box<[Cell]>>,
    places: HashMap<u64, u32>,
    /// The pages that were used last, by the lowest bits of their numbers.
    recent: Vec<(u64, u32)>,
}

impl Cells {
    /// Returns the cell of a word of 4 bytes, by the number of the word.
    #[inline]
    pub fn at(&mut self, word: u64) -> &mut Cell {
        if self.recent.is_empty() {
            self.recent = vec![(u64::MAX, 0); 256];
        }
        let page = word / PAGE;
        let recent = &mut self.recent[page as usize % 256];
        if recent.0 != page {
            let pages = &mut self.pages;
            let index = *self.places.entry(page).or_insert_with(|| {
                pages.push(vec![Cell::default(); PAGE as usize].into_boxed_slice());
                pages.len() as u32 - 1
            });
            *recent = (page, index);
        }
        &mut self.pages[recent.1 as usize][(word % PAGE) as usize]
    }
}

/// The clocks of the lanes of a warp: what each lane knows of each, itself included.
pub struct WarpClocks {
    /// Row t: what lane t knows.
    pub rows: Box<[[u32; LANES]; LANES]>,
}

impl Default for WarpClocks {
    /// Makes the clocks of a warp whose block has passed no barrier.
    fn default() -> Self {
        let mut clocks = Self { rows: Box::new([[0; LANES]; LANES]) };
        clocks.begin(1);
        clocks
    }
}

impl WarpClocks {
    /// Begins the time behind the `number`-th barrier of the block.
    pub fn begin(&mut self, number: u32) {
        let floor = number << INNER;
        for (lane, row) in self.rows.iter_mut().enumerate() {
            row.fill(floor - 1);
            row[lane] = floor;
        }
    }

    /// Returns the clock of a lane.
    #[inline]
    pub fn now(&self, lane: usize) -> u32 {
        self.rows[lane][lane]
    }

    /// Advances the clock of a lane.
    pub fn tick(&mut self, lane: usize) {
        let clock = &mut self.rows[lane][lane];
        if (*clock + 1) & ((1 << INNER) - 1) != 0 {
            *clock += 1;
        }
    }

    /// Passes a barrier of the lanes of `mask`.
    pub fn meet(&mut self, mask: u32) {
        let mut all = [0; LANES];
        let lanes = || (0..LANES).filter(|lane| mask >> lane & 1 == 1);
        for lane in lanes() {
            for (to, from) in all.iter_mut().zip(&self.rows[lane]) {
                *to = (*to).max(*from);
            }
        }
        for lane in lanes() {
            self.rows[lane] = all;
            self.tick(lane);
        }
    }
}

/// The number of a word and the mask of its bytes, for each word that an access has.
#[inline]
pub fn words(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u32)> {
    let end = address + bytes;
    (address / 4..end.div_ceil(4)).map(move |word| {
        let from = address.max(4 * word) - 4 * word;
        let to = end.min(4 * word + 4) - 4 * word;
        (word, (0xF << from & (0xF >> (4 - to))) as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<'a>(thread: Thread, warp: &'a WarpClocks, known: Option<&'a Known>) -> View<'a> {
        View {
            thread,
            span: 64,
            floor: 1 << INNER,
            warp: &warp.rows[thread as usize % LANES],
            known,
        }
    }

    #[test]
    fn lanes_race_until_they_meet() {
        let mut warp = WarpClocks::default();
        let mut cell = Cell::default();
        let write = |t: u32, warp: &WarpClocks, cell: &mut Cell, bytes, is_write| {
            let new = Access::new(t, warp.now(t as usize), t, bytes, is_write, false);
            check(cell, new, &view(t, warp, None), false, 0).map(|old| old.at)
        };
        assert_eq!(write(1, &warp, &mut cell, 15, true), None);
        assert_eq!(write(1, &warp, &mut cell, 15, false), None);
        assert_eq!(write(2, &warp, &mut cell, 3, false), Some(1));
        warp.meet(0b1110);
        assert_eq!(write(3, &warp, &mut cell, 15, true), None);
        assert_eq!(write(4, &warp, &mut cell, 15, false), Some(3), "lane 4 did not meet them");
        warp.meet(ALL_LANES);
        assert_eq!(write(5, &warp, &mut cell, 1, true), None);
        assert_eq!(write(6, &warp, &mut cell, 2, true), None, "another byte");
        warp.begin(2);
        let new = Access::new(7, warp.now(7), 7, 15, true, false);
        let view = View { floor: 2 << INNER, ..view(7, &warp, None) };
        assert!(check(&mut cell, new, &view, false, 0).is_none());
    }

    const ALL_LANES: u32 = !0;

    #[test]
    fn strong_accesses_do_not_race_with_each_other() {
        let warp = WarpClocks::default();
        let mut cell = Cell::default();
        let mut access = |t, is_write, is_strong, known: Option<&Known>| {
            let new = Access::new(t, warp.now(0), t, 15, is_write, is_strong);
            check(&mut cell, new, &view(t, &warp, known), false, 0).is_some()
        };
        assert!(!access(64, true, true, None) && !access(128, true, true, None));
        let known = Known::of_point(64, 1 << INNER);
        assert!(access(0, false, false, Some(&known)), "128 is not known");
        let known = Known::of_thread(1, 2 << INNER, Vec::new());
        assert!(access(0, false, false, Some(&known)));
    }

    #[test]
    fn an_access_has_words() {
        assert_eq!(words(8, 8).collect::<Vec<_>>(), [(2, 15), (3, 15)]);
        assert_eq!(words(6, 2).collect::<Vec<_>>(), [(1, 12)]);
        assert_eq!(words(5, 1).collect::<Vec<_>>(), [(1, 2)]);
    }

    #[test]
    fn pages_of_cells_are_found_again() {
        let mut cells = Cells::default();
        for word in [0, 256, 65536, 0x7FFF_FFFF_FFF0] {
            cells.at(word)[0].at = word as u32 + 1;
        }
        for word in [0x7FFF_FFFF_FFF0, 65536, 256, 0] {
            assert_eq!(cells.at(word)[0].at, word as u32 + 1);
        }
    }
}
