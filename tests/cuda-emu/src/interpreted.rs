//! Launches of PTX modules: the driver's side of [`crate::ptx`].

use crate::driver::Driver;
use crate::execute::Progress;
use crate::ptx::{Fault, Grid, Interleaving, Memory, Module, Report, Shape};
use crate::settings::Mode;
use crate::status::{
    Result, ILLEGAL_ADDRESS, INVALID_IMAGE, INVALID_VALUE, LAUNCH_FAILED, MISALIGNED_ADDRESS,
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
    /// Makes a launch; `shape.shared` and `most` are bytes of dynamic shared memory.
    ///
    /// # Safety
    /// `parameters` must point to an array with a pointer to each argument of the kernel; for a
    /// kernel without arguments it may be null.
    #[allow(clippy::too_many_arguments, reason = "what a launch has")]
    pub unsafe fn new(
        module: Arc<Module>,
        kernel: usize,
        mut shape: Shape,
        most: u32,
        device: usize,
        parameters: *mut *mut c_void,
        order: Interleaving,
        seed: u64,
    ) -> Result<Self> {
        let function = &module.functions[kernel];
        let dynamic = shape.shared;
        shape.shared = function.shared.next_multiple_of(16) + dynamic;
        let too_many = function.most_threads != 0 && shape.threads() > function.most_threads;
        let too_much =
            dynamic != 0 && shape.shared > most.max(48 << 10) || function.shared > 48 << 10;
        let none = parameters.is_null() && !function.parameters.is_empty();
        let refused = |what: String| {
            let kernel = function.name.clone();
            let (block, thread, line, source) = ([0; 3], 0, 0, None);
            let fault = Fault::Launch;
            eprintln!("cuda-emu: {}", Report { fault, kernel, block, thread, line, source, what });
            INVALID_VALUE
        };
        if too_many || too_much || none {
            return Err(refused(format!(
                "{} threads per block of at most {}, {} bytes of shared memory of at most {most}, arguments {}",
                shape.threads(),
                function.most_threads,
                shape.shared,
                if none { "missing" } else { "given" }
            )));
        }
        let end = function.parameters.last().map_or(0, |(at, bytes)| at + bytes) as usize;
        let mut bytes = vec![0u8; end];
        let mut words = Vec::new();
        for (i, (at, size)) in function.parameters.iter().enumerate() {
            let to = &mut bytes[*at as usize..(at + size) as usize];
            // SAFETY: the caller promises a pointer to each argument.
            let from = unsafe { parameters.add(i).read() } as usize;
            if !copied(from, to) {
                let count = function.parameters.len();
                return Err(refused(format!("argument {i} of {count}: {from:#x} is no memory")));
            }
            let mut word = [0; 8];
            let count = to.len().min(8);
            word[..count].copy_from_slice(&to[..count]);
            words.push(u64::from_le_bytes(word));
        }
        let grid = Grid::new(module, kernel, bytes, shape, device, order, seed);
        Ok(Self { grid, has_begun: false, words })
    }
}

/// Copies the bytes at an address, where `to` is as long as what the caller promises. Returns
/// whether there is memory: a launch with too few arguments gives wild pointers.
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
    // SAFETY: the system does not allow the call above; the caller promises that the argument is
    // there.
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
