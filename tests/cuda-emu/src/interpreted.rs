//! Launches of PTX modules: the driver's side of [`crate::ptx`].

use crate::driver::Driver;
use crate::execute::Progress;
use crate::launch::SHARED;
use crate::ptx::{Fault, Function, Grid, Interleaving, Memory, Module, Report, Shape};
use crate::settings::Mode;
use crate::status::{
    Result, Status, ILLEGAL_ADDRESS, INVALID_IMAGE, INVALID_VALUE, LAUNCH_FAILED,
    MISALIGNED_ADDRESS,
};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A launch.
pub struct Interpreted {
    grid: Grid,
    has_begun: bool,
    /// The first 8 bytes of each argument.
    pub words: Vec<u64>,
}

/// Reads a module. The modules of this process are kept, since tests load the same ones again and
/// again.
pub fn load(text: &str) -> Result<Arc<Module>> {
    type Modules = Mutex<HashMap<String, Arc<Module>>>;
    static MODULES: LazyLock<Modules> = LazyLock::new(Default::default);
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(module) = modules.get(text) {
        return Ok(Arc::clone(module));
    }
    match Module::parse(text) {
        Ok(module) => {
            let module = Arc::new(module);
            modules.insert(text.to_owned(), Arc::clone(&module));
            Ok(module)
        }
        Err(unknown) => {
            eprintln!("cuda-emu: {unknown}");
            Err(INVALID_IMAGE)
        }
    }
}

impl Interpreted {
    /// Makes a launch; `shape.shared` is the number of bytes of dynamic shared memory.
    pub fn new(
        module: Arc<Module>,
        kernel: usize,
        mut shape: Shape,
        device: usize,
        arguments: Arguments,
        order: Interleaving,
        seed: u64,
    ) -> Result<Self> {
        let function = &module.functions[kernel];
        let dynamic = shape.shared;
        shape.shared = function.shared.next_multiple_of(16) + dynamic;
        let too_many = function.most_threads != 0 && shape.threads() > function.most_threads;
        let too_much = dynamic != 0 && shape.shared > SHARED || function.shared > SHARED;
        if too_many || too_much {
            let what = format!(
                "{} threads per block of at most {}, {} bytes of shared memory of at most {SHARED}",
                shape.threads(),
                function.most_threads,
                shape.shared,
            );
            return Err(refused(function, what));
        }
        let Arguments { bytes, words } = arguments;
        let grid = Grid::new(module, kernel, bytes, shape, device, order, seed);
        Ok(Self { grid, has_begun: false, words })
    }
}

/// The arguments of a launch.
pub struct Arguments {
    /// The arguments as the kernel's parameters lie in memory.
    bytes: Vec<u8>,
    /// The first 8 bytes of each argument.
    words: Vec<u64>,
}

impl Arguments {
    /// Reads the arguments of a launch of `function` through `pointers`, the array that the
    /// application gave to `cuLaunchKernel`, and no others than the kernel's PTX declares. Refuses a
    /// launch that has too few arguments or arguments of other sizes, as far as memory shows it:
    /// - an element of `pointers`, or an argument, that lies in no memory (a null pointer, too);
    /// - an argument that is not aligned as its parameter is, and two arguments of which one begins
    ///   within the other: the application's variable is shorter than the parameter;
    /// - with `null_behind`, an element behind the last argument's that is not null: the application
    ///   gives more arguments than the kernel has.
    pub fn read(
        function: &Function,
        pointers: *mut *mut c_void,
        null_behind: bool,
    ) -> Result<Self> {
        let count = function.parameters.len();
        let pointer = |i: usize| {
            let mut address = [0; size_of::<usize>()];
            copied((pointers as usize).wrapping_add(i * address.len()), &mut address)
                .then_some(usize::from_ne_bytes(address))
        };
        let end = function.parameters.last().map_or(0, |(at, size, _)| at + size) as usize;
        let (mut bytes, mut words) = (vec![0u8; end], Vec::new());
        let mut places: Vec<(usize, u32)> = Vec::new();
        for (i, &(at, size, align)) in function.parameters.iter().enumerate() {
            let wrong = |what: &str| refused(function, format!("argument {i} of {count}: {what}"));
            let from = pointer(i).ok_or_else(|| wrong("the array of pointers is no memory"))?;
            let to = &mut bytes[at as usize..(at + size) as usize];
            if !copied(from, to) {
                return Err(wrong(&format!("{from:#x} is no memory")));
            }
            if from % align as usize != 0 {
                return Err(wrong(&format!("{from:#x} is no address of {size} aligned bytes")));
            }
            let overlaps = |&&(other, of_other): &&(usize, u32)| {
                (other, of_other) != (from, size)
                    && other < from + size as usize
                    && from < other + of_other as usize
            };
            if let Some((other, of_other)) = places.iter().find(overlaps) {
                return Err(wrong(&format!(
                    "{size} bytes at {from:#x} and another argument's {of_other} bytes at {other:#x} overlap"
                )));
            }
            places.push((from, size));
            let mut word = [0; 8];
            let len = to.len().min(8);
            word[..len].copy_from_slice(&to[..len]);
            words.push(u64::from_le_bytes(word));
        }
        if null_behind && !pointers.is_null() && pointer(count) != Some(0) {
            return Err(refused(function, format!("more arguments than the kernel's {count}")));
        }
        Ok(Self { bytes, words })
    }
}

/// Reports a launch that a device refuses, or that cannot be what the application means. Returns the
/// status of the launch.
pub fn refused(function: &Function, what: String) -> Status {
    let kernel = function.name.clone();
    let (fault, block, thread, line, source) = (Fault::Launch, [0; 3], 0, 0, None);
    eprintln!("cuda-emu: {}", Report { fault, kernel, block, thread, line, source, what });
    INVALID_VALUE
}

/// Copies the bytes at an address. Returns whether there is memory: a launch with too few arguments
/// gives wild pointers.
fn copied(from: usize, to: &mut [u8]) -> bool {
    let (base, len) = (to.as_mut_ptr().cast(), to.len());
    let local = libc::iovec { iov_base: base, iov_len: len };
    let remote = libc::iovec { iov_base: from as *mut c_void, iov_len: len };
    // SAFETY: `local` is the whole of `to`; the system checks `remote`.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if count == len as isize {
        return true;
    }
    if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) || count >= 0 {
        return false;
    }
    // SAFETY: the system does not allow the call above; the application promises the driver that its
    // pointers to arguments are valid.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), len) };
    true
}

impl Driver {
    /// Runs a part of a launch: in random mode often not all, otherwise all.
    pub fn interpret(&mut self, launch: &mut Interpreted) -> Result<Progress> {
        if !launch.has_begun {
            launch.has_begun = true;
            if self.kernels.is_some() {
                launch.grid.count();
            }
            self.faults.kernel()?;
        }
        let torn = self.settings.mode == Mode::Random && self.rng.below(2) == 1;
        let count = if torn { 1 + self.rng.below(1 << 20) as u64 } else { u64::MAX };
        let memory = self.memory.interpreted.get_or_insert_with(Memory::default);
        if !launch.grid.run(memory, count) {
            return Ok(Progress::Partial);
        }
        if let (Some(kernels), Some(counts)) = (&mut self.kernels, launch.grid.counts()) {
            kernels.entry(launch.grid.name().to_owned()).or_default().add(&counts);
        }
        let Some(first) = launch.grid.reports().first() else { return Ok(Progress::Finished) };
        let code = match first.fault {
            Fault::Bounds => ILLEGAL_ADDRESS,
            Fault::Alignment => MISALIGNED_ADDRESS,
            _ => LAUNCH_FAILED,
        };
        for report in launch.grid.reports() {
            eprintln!("cuda-emu: {report}");
        }
        Err(code)
    }
}
