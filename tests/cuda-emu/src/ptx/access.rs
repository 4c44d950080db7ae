//! Loads, stores and atomics, with their checks.

use super::alu::Registers;
use super::block::{Core, Warp};
use super::clock::{add, Given, Known, Order};
use super::decode::SHARED_WINDOW;
use super::exec::{drain, lanes_of, Choice, Context, Stop};
use super::inst::*;
use super::memory::Memory;
use super::module::Function;
use super::races::{check, words, Access, View};
use super::report::Fault;
use super::stores::{Found, Store};
use std::sync::Arc;

/// The bytes behind an access: an address of global memory or an offset in shared memory.
#[derive(Clone, Copy)]
struct Place {
    shared: bool,
    address: u64,
}

/// How an access is made.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Read,
    /// A store of these values.
    Write([u64; 4]),
    Both,
}

impl Way {
    /// Returns the word at `at` of a store to `address` of values of `bytes` bytes.
    fn word(&self, at: u64, address: u64, bytes: u64) -> u32 {
        let Self::Write(values) = self else { return 0 };
        let mut word = 0;
        for i in (at.max(address)..at + 4).rev() {
            let offset = i - address;
            let value = values.get((offset / bytes) as usize).copied().unwrap_or(0);
            word = word << 8 | (value >> (8 * (offset % bytes))) as u32 & 0xFF;
        }
        word
    }
}

/// An instruction that accesses memory: where it is, and what it may touch.
pub struct Site<'a> {
    pub core: &'a mut Core,
    pub warp: &'a mut Warp,
    pub memory: &'a mut Memory,
    pub pc: u32,
    pub inst: &'a Inst,
}

impl Site<'_> {
    /// Makes the stores of a lane visible.
    fn drain(&mut self, lane: usize) {
        drain(self.core, self.warp, 1 << lane);
    }

    /// Returns the number of bytes of one value.
    fn bytes(&self) -> u64 {
        self.inst.ty.bytes().into()
    }

    /// Returns the registers; the constants are those of `function`.
    fn registers<'a>(&'a mut self, function: &'a Function) -> Registers<'a> {
        Registers { rows: &mut self.warp.rows, constants: &function.constants }
    }

    /// Returns the addresses that the lanes access.
    fn addresses(&mut self, function: &Function) -> Row {
        let inst = self.inst;
        let mut row = self.registers(function).get(inst.s[0]);
        row.iter_mut().for_each(|address| *address = address.wrapping_add(inst.offset));
        row
    }
}

impl Context {
    /// Runs a load, a store or an atomic for the lanes of `mask`.
    pub fn access(&mut self, site: &mut Site, mask: u32) -> Result<(), Stop> {
        let inst = site.inst;
        if matches!(inst.space, Space::Param | Space::Const) {
            return self.load_constant(site, mask);
        }
        if self.counter.is_some() {
            self.count(site, mask);
        }
        match inst.op {
            Op::Ld => self.load(site, mask),
            Op::St => self.store(site, mask),
            Op::Atom(atom) => {
                let turn = if self.choice == Choice::Random { self.rng.below(LANES) } else { 0 };
                (0..LANES)
                    .map(|lane| (lane + turn) % LANES)
                    .filter(|lane| mask >> lane & 1 == 1)
                    .try_for_each(|lane| self.atom(site, lane, atom))
            }
            _ => unreachable!("no access to memory"),
        }
    }

    fn load_constant(&mut self, site: &mut Site, mask: u32) -> Result<(), Stop> {
        let (module, inst) = (Arc::clone(&self.module), site.inst);
        let function = &module.functions[self.function];
        let (base, room) = match inst.space {
            Space::Param => (self.parameters.as_ptr() as u64, self.parameters.len() as u64),
            _ => (module.data.as_ptr() as u64, module.bytes as u64),
        };
        let bytes = site.bytes();
        for lane in lanes_of(mask) {
            let at = site.registers(function).lane(inst.s[0], lane).wrapping_add(inst.offset);
            let at = if inst.space == Space::Param { at } else { at.wrapping_sub(base) };
            let all = bytes * u64::from(inst.vector);
            if at.checked_add(all).is_none_or(|end| end > room) || at % bytes != 0 {
                let text = || format!("{all} bytes at {at} of {room} bytes of constants");
                return self.report(Fault::Bounds, site.core, site.warp, lane, inst, text);
            }
            for k in 0..inst.vector as usize {
                let address = base + at + bytes * k as u64;
                let value = inst.ty.extend(read(&[], false, address, bytes));
                site.registers(function).set(inst.d[k], lane, value);
            }
        }
        Ok(())
    }

    fn load(&mut self, site: &mut Site, mask: u32) -> Result<(), Stop> {
        let (bytes, inst) = (site.bytes(), site.inst);
        let addresses = site.addresses(self.function());
        for lane in lanes_of(mask) {
            let place = self.touch(site, lane, addresses[lane], Way::Read)?;
            if inst.volatile {
                // A volatile load sees what others have written; the lane's own store goes first.
                self.take(site, lane, place);
            }
            for k in 0..inst.vector as usize {
                let address = place.address + bytes * k as u64;
                let value = match site.warp.stores.find(lane, place.shared, address, bytes) {
                    Found::Value(value) => value,
                    found => {
                        if found == Found::Part {
                            site.drain(lane);
                        }
                        read(&site.core.shared, place.shared, address, bytes)
                    }
                };
                if inst.d[k] != NONE {
                    site.warp.rows[inst.d[k] as usize][lane] = inst.ty.extend(value);
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, site: &mut Site, mask: u32) -> Result<(), Stop> {
        let (bytes, inst) = (site.bytes(), site.inst);
        self.progress = self.executed;
        let module = Arc::clone(&self.module);
        let function = &module.functions[self.function];
        let addresses = site.addresses(function);
        for lane in lanes_of(mask) {
            if inst.volatile {
                self.before_strong_write(site.warp, lane);
            }
            let mut values = [0; 4];
            for (value, row) in values.iter_mut().zip(&inst.s[1..=inst.vector as usize]) {
                *value = inst.ty.cut(site.registers(function).lane(*row, lane));
            }
            let place = self.touch(site, lane, addresses[lane], Way::Write(values))?;
            for (k, &value) in values[..inst.vector as usize].iter().enumerate() {
                let address = place.address + bytes * k as u64;
                let (shared, delays) = (place.shared, self.delays && !inst.volatile);
                let mine = site.warp.stores.find(lane, shared, address, bytes);
                let must_drain =
                    if delays { site.warp.stores.is_full(lane) } else { mine != Found::Nothing };
                if must_drain || mine == Found::Part {
                    site.drain(lane);
                }
                if delays {
                    let (lane, bytes) = (lane as u8, bytes as u8);
                    site.warp.stores.push(Store { lane, bytes, shared, address, value });
                } else {
                    write(&mut site.core.shared, shared, address, bytes, value);
                }
            }
            if inst.volatile {
                self.give(site, lane, place, false);
            }
        }
        Ok(())
    }

    fn atom(&mut self, site: &mut Site, lane: usize, atom: Atom) -> Result<(), Stop> {
        let (module, inst) = (Arc::clone(&self.module), site.inst);
        let registers = site.registers(&module.functions[self.function]);
        let address = registers.lane(inst.s[0], lane).wrapping_add(inst.offset);
        let operand = inst.ty.cut(registers.lane(inst.s[1], lane));
        self.before_strong_write(site.warp, lane);
        let place = self.touch(site, lane, address, Way::Both)?;
        let bytes = site.bytes();
        if site.warp.stores.find(lane, place.shared, place.address, bytes) != Found::Nothing {
            site.drain(lane);
        }
        self.take(site, lane, place);
        let old = read(&site.core.shared, place.shared, place.address, bytes);
        let new = result(atom, inst.ty, old, operand);
        if new != old {
            self.progress = self.executed;
        }
        write(&mut site.core.shared, place.shared, place.address, bytes, new);
        self.give(site, lane, place, true);
        if inst.d[0] != NONE {
            site.warp.rows[inst.d[0] as usize][lane] = old;
        }
        Ok(())
    }

    /// Counts an access of the lanes of `mask`.
    fn count(&mut self, site: &mut Site, mask: u32) {
        let addresses = site.addresses(self.function());
        let Some(counter) = &mut self.counter else { return };
        let (mut global, mut shared) = (Vec::new(), Vec::new());
        for lane in lanes_of(mask) {
            let address = addresses[lane];
            match site.inst.space {
                Space::Shared => shared.push((lane, address)),
                Space::Generic if address >= SHARED_WINDOW => {
                    shared.push((lane, address - SHARED_WINDOW));
                }
                _ => global.push(address),
            }
        }
        counter.global(site.inst, &global);
        counter.shared(site.inst, &shared);
    }

    /// Checks an access of a lane: alignment, bounds, whether what is read has been written, races.
    #[inline]
    fn touch(
        &mut self,
        site: &mut Site,
        lane: usize,
        address: u64,
        way: Way,
    ) -> Result<Place, Stop> {
        let inst = site.inst;
        let bytes = u64::from(inst.ty.bytes() * inst.vector);
        let in_window = inst.space == Space::Generic && address >= SHARED_WINDOW;
        let shared = in_window || inst.space == Space::Shared;
        let address = if in_window { address - SHARED_WINDOW } else { address };
        if address % bytes != 0 {
            let text = || format!("{bytes} bytes at address {address:#x}");
            self.report(Fault::Alignment, site.core, site.warp, lane, inst, text)?;
        }
        let is_written = if shared {
            let room = site.core.shared.len();
            if address + bytes > room as u64 {
                let text =
                    || format!("{bytes} bytes at {address} of {room} bytes of shared memory");
                self.report(Fault::Bounds, site.core, site.warp, lane, inst, text)?;
            }
            let written = &mut site.core.written[address as usize..(address + bytes) as usize];
            match way {
                Way::Write(_) => {
                    written.fill(true);
                    true
                }
                Way::Read | Way::Both => written.iter().all(|&is_written| is_written),
            }
        } else {
            let index = self.recent[site.pc as usize];
            let known = index != usize::MAX && site.memory.at(index).has(address, bytes);
            let index = if known { Some(index) } else { site.memory.find(address, bytes) };
            let device = self.device;
            let reachable =
                |index: &usize| site.memory.at(*index).device.is_none_or(|of| of == device);
            let Some(index) = index.filter(reachable) else {
                let data = self.module.data.as_ptr() as u64;
                let room = self.module.bytes as u64;
                if way == Way::Read && address >= data && address + bytes <= data + room {
                    return Ok(Place { shared, address });
                }
                let near = site.memory.before(address).map_or(String::new(), |allocation| {
                    let (base, size) = (allocation.base, allocation.size);
                    format!(", {} bytes behind the start of {size} bytes of memory", address - base)
                });
                let text = || format!("{bytes} bytes at address {address:#x}{near}");
                self.report(Fault::Bounds, site.core, site.warp, lane, inst, text)?;
                unreachable!("the launch has ended");
            };
            self.recent[site.pc as usize] = index;
            let allocation = site.memory.at(index);
            if matches!(way, Way::Write(_)) {
                allocation.write(address, bytes);
                true
            } else {
                allocation.is_written(address, bytes)
            }
        };
        if !is_written {
            let kind = if shared { "shared" } else { "global" };
            let text =
                || format!("{bytes} bytes of {kind} memory at {address:#x} were never written");
            self.report(Fault::Uninitialised, site.core, site.warp, lane, inst, text)?;
        }
        self.check_races(site, lane, Place { shared, address }, bytes, way)?;
        Ok(Place { shared, address })
    }

    #[inline]
    fn check_races(
        &mut self,
        site: &mut Site,
        lane: usize,
        place: Place,
        bytes: u64,
        way: Way,
    ) -> Result<(), Stop> {
        let (core, warp, inst) = (&mut *site.core, &*site.warp, site.inst);
        let span = self.shape.span();
        let thread = core.number * span + warp.first + lane as u32;
        let view = View {
            thread,
            span,
            floor: core.barriers << super::clock::INNER,
            warp: &warp.clocks.rows[lane],
            known: warp.orders.as_ref().and_then(|orders| orders[lane].known.as_deref()),
        };
        let clock = warp.clocks.now(lane);
        let mut race = None;
        for (word, mask) in words(place.address, bytes) {
            let mut new =
                Access::new(thread, clock, site.pc, mask, way != Way::Read, inst.volatile);
            if !inst.volatile && way != Way::Read {
                let size = inst.ty.bytes().into();
                new = new.with_value(way.word(4 * word, place.address, size));
            }
            let cell = match place.shared {
                true => &mut core.cells[word as usize],
                false => self.cells.at(word),
            };
            let draw = (self.executed ^ word) as u32;
            race = race.or(check(cell, new, &view, place.shared, draw));
        }
        let Some(old) = race else { return Ok(()) };
        let other = self.function().code[old.at as usize];
        let from =
            self.source(&other).map_or(String::new(), |(file, line)| format!(" ({file}:{line})"));
        let text = || {
            format!(
                "{} {} memory at {:#x}, which thread {} of block {} {} at PTX line {}{from}; nothing orders the two",
                if way == Way::Read { "reads" } else { "writes" },
                if place.shared { "shared" } else { "global" },
                place.address,
                old.thread % span,
                old.thread / span,
                if old.writes() { "wrote" } else { "read" },
                other.line
            )
        };
        self.report(Fault::Race, core, warp, lane, inst, text)
    }

    /// A lane that releases something begins a new time before and after each strong write, so that
    /// the write alone can be told apart.
    fn before_strong_write(&self, warp: &mut Warp, lane: usize) {
        let releases = |order: &Order| order.released_in_block.is_some();
        if warp.orders.as_ref().is_some_and(|orders| releases(&orders[lane])) {
            warp.clocks.tick(lane);
        }
    }

    /// Takes what a word gives to a lane that reads it by a strong read.
    fn take(&mut self, site: &mut Site, lane: usize, place: Place) {
        let given = if place.shared { &site.core.given } else { &self.given };
        if given.is_empty() {
            return;
        }
        let Some(given) = given.get(&place.address).cloned() else { return };
        let span = self.shape.span();
        let order = site.warp.order(lane);
        add(&mut order.read, &given.to_all, span);
        if let Some((_, known)) = given.in_block.filter(|(block, _)| *block == site.core.number) {
            add(&mut order.read_of_block, &Some(known), span);
        }
    }

    /// Gives what a lane releases to a word that it writes by a strong write. With `adds`, what
    /// earlier writers gave stays.
    fn give(&mut self, site: &mut Site, lane: usize, place: Place, adds: bool) {
        let (core, warp, span) = (&mut *site.core, &mut *site.warp, self.shape.span());
        let all = if place.shared { &mut core.given } else { &mut self.given };
        if !adds && !all.is_empty() {
            all.remove(&place.address);
        }
        let Some(order) = warp.orders.as_ref().map(|orders| &orders[lane]) else { return };
        if order.released_in_block.is_none() {
            return;
        }
        let thread = core.number * span + warp.first + lane as u32;
        let point = Some(Arc::new(Known::of_point(thread, warp.clocks.now(lane))));
        let given = all.entry(place.address).or_insert_with(Given::default);
        if order.released.is_some() {
            add(&mut given.to_all, &order.released, span);
            add(&mut given.to_all, &point, span);
        }
        let mut in_block = given
            .in_block
            .take()
            .filter(|(block, _)| *block == core.number)
            .map(|(_, known)| known);
        add(&mut in_block, &order.released_in_block, span);
        add(&mut in_block, &point, span);
        given.in_block = in_block.map(|known| (core.number, known));
        warp.clocks.tick(lane);
    }
}

/// Reads a value of global or shared memory.
#[inline]
fn read(shared: &[u8], is_shared: bool, address: u64, bytes: u64) -> u64 {
    let mut value = [0; 8];
    if is_shared {
        let at = address as usize;
        value[..bytes as usize].copy_from_slice(&shared[at..at + bytes as usize]);
        return u64::from_le_bytes(value);
    }
    // SAFETY: the bytes have been found inside a live allocation, the parameters or the module's
    // data; other memory of the process does not overlap them.
    unsafe {
        match bytes {
            1 => (address as *const u8).read().into(),
            2 => (address as *const u16).read_unaligned().into(),
            4 => (address as *const u32).read_unaligned().into(),
            _ => (address as *const u64).read_unaligned(),
        }
    }
}

/// Writes a value to global or shared memory.
#[inline]
pub fn write(shared: &mut [u8], is_shared: bool, address: u64, bytes: u64, value: u64) {
    if is_shared {
        let at = address as usize;
        shared[at..at + bytes as usize].copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        return;
    }
    // SAFETY: the bytes were found inside a live allocation when the store ran. The driver's memory
    // stays mapped after it is freed.
    unsafe {
        match bytes {
            1 => (address as *mut u8).write(value as u8),
            2 => (address as *mut u16).write_unaligned(value as u16),
            4 => (address as *mut u32).write_unaligned(value as u32),
            _ => (address as *mut u64).write_unaligned(value),
        }
    }
}

/// Returns what an atomic makes of the old value.
fn result(atom: Atom, ty: Ty, old: u64, b: u64) -> u64 {
    let (x, y) = (ty.extend(old), ty.extend(b));
    let less = if ty.is_signed() { (y as i64) < x as i64 } else { y < x };
    let (least, most) = if less { (b, old) } else { (old, b) };
    let value = match atom {
        Atom::Add if ty == Ty::F32 => {
            let sum = f32::from_bits(old as u32) + f32::from_bits(b as u32);
            sum.to_bits().into()
        }
        Atom::Add if ty == Ty::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        Atom::Add => old.wrapping_add(b),
        Atom::And => old & b,
        Atom::Or => old | b,
        Atom::Xor => old ^ b,
        Atom::Min => least,
        Atom::Max => most,
        Atom::Exch => b,
    };
    ty.cut(value)
}
