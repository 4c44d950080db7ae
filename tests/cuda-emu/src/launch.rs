//! Modules, kernels and their launches: a module is a shared library made by [`crate::nvrtc`], whose
//! grids run block by block, or PTX, whose grids [`crate::interpreted`] runs.

use crate::clock::fnv;
use crate::driver::Driver;
use crate::execute::{Action, Progress};
use crate::interpreted::{self, Arguments, Interpreted};
use crate::nvrtc::{self, Image};
use crate::ptx;
use crate::settings::Mode;
use crate::status::{
    Result, ILLEGAL_ADDRESS, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, LAUNCH_FAILED,
    NOT_FOUND, NO_BINARY_FOR_GPU, OPERATING_SYSTEM,
};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The largest number of threads of a block.
const THREADS: u64 = 1024;
/// The most bytes of shared memory that a block may have.
pub const SHARED: u32 = 48 << 10;

/// `emu_words` of `kernel.h`: the first 8 bytes of a kernel's arguments.
#[repr(C)]
struct Words {
    arguments: *mut c_void,
    count: u64,
    at: [u64; 32],
}

/// `emu_kernel` of `kernel.h`. The first argument: 0 copies the kernel's arguments, 1 runs a
/// thread, 2 frees the copy, 3 fills `emu_words` from the copy.
type Entry = unsafe extern "C" fn(c_int, *mut c_void) -> *mut c_void;
/// `emu_run_block` of `kernel.h`.
type RunBlock = unsafe extern "C" fn(Entry, *mut c_void, *const u32, u32, u64) -> *const c_char;

/// A loaded shared library, closed when the last module, kernel and launch that use it are dropped.
struct Library {
    handle: *mut c_void,
    run_block: RunBlock,
}

// SAFETY: the handle of a library and the addresses in the library are valid in every thread; the
// driver's lock lets only one thread at a time run its kernels.
unsafe impl Send for Library {}
// SAFETY: all use of a library from several threads is under the driver's lock.
unsafe impl Sync for Library {}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: `dlopen` gave the handle, and nothing in the library is used any more.
        unsafe { libc::dlclose(self.handle) };
    }
}

impl Library {
    /// Loads the bytes of a shared library. Each call loads a new copy with its own variables.
    fn open(bytes: &[u8]) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("cuda-emu-{}-{}.so", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).map_err(|_| OPERATING_SYSTEM)?;
        let text =
            CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| OPERATING_SYSTEM)?;
        // SAFETY: `text` is a C string; the library was compiled from kernels and has no
        // constructors.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let _ = std::fs::remove_file(&path);
        if handle.is_null() {
            return Err(INVALID_IMAGE);
        }
        // SAFETY: the library is open, and `kernel.h` defines a function of this name and type in
        // it.
        let run_block = unsafe {
            std::mem::transmute::<*mut c_void, Option<RunBlock>>(libc::dlsym(
                handle,
                c"emu_run_block".as_ptr(),
            ))
        };
        let Some(run_block) = run_block else {
            // SAFETY: `dlopen` gave the handle above, and nothing uses the library.
            unsafe { libc::dlclose(handle) };
            return Err(INVALID_IMAGE);
        };
        Ok(Arc::new(Self { handle, run_block }))
    }

    /// Returns the entry of the kernel called `name`.
    fn kernel(&self, name: &str) -> Option<Entry> {
        let symbol = |name: &str| {
            let name = CString::new(name).ok()?;
            // SAFETY: the library is open, and `name` is a C string.
            let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        // As with NVIDIA's compiler, only a kernel with `extern "C"` keeps its name.
        symbol(name)?;
        let entry = symbol(&format!("emu_kernel_{name}"))?;
        // SAFETY: the software NVRTC has added the trampolines to the source, with these names and
        // this type.
        Some(unsafe { std::mem::transmute::<*mut c_void, Entry>(entry) })
    }
}

/// The code of a module.
enum Code {
    Library(Arc<Library>),
    Ptx(Arc<ptx::Module>),
}

/// A module.
pub struct Module {
    /// Index of its context.
    pub context: usize,
    code: Code,
}

/// Where a kernel begins.
#[derive(Clone, Copy)]
enum Begin {
    /// The kernel was compiled for the host.
    Native(Entry),
    /// The kernel is interpreted; its number in the module of PTX.
    Ptx(usize),
}

/// A kernel.
pub struct Function {
    /// Index of its module.
    module: usize,
    begin: Begin,
    /// FNV-1a of its name.
    name: u64,
}

/// A launch of a kernel.
pub enum Launch {
    /// Of a shared library.
    Native(Native),
    /// Of PTX.
    Interpreted(Box<Interpreted>),
}

/// A grid of a shared library. Some of its blocks may have run.
pub struct Native {
    library: Arc<Library>,
    entry: Entry,
    /// The copy of the arguments, which `entry` made.
    arguments: *mut c_void,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    /// The number of blocks that have run.
    done: usize,
    /// The k-th block that runs is the one with the index `first + k * stride`.
    first: usize,
    stride: usize,
}

// SAFETY: the pointer `arguments` points to bytes that belong to this launch alone.
unsafe impl Send for Native {}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: `entry` made the copy, and the library is still open.
        unsafe { (self.entry)(2, self.arguments) };
    }
}

impl Native {
    fn blocks(&self) -> usize {
        self.grid.iter().map(|blocks| *blocks as usize).product()
    }
}

impl Driver {
    /// `cuModuleLoadData`
    ///
    /// # Safety
    /// `image` must be null or an image of the software NVRTC.
    pub unsafe fn module_load(&mut self, image: *const c_char) -> Result<usize> {
        let context = self.current()?;
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller promises that `image` is null or an image of the software NVRTC.
        let (image, target) = unsafe { nvrtc::decode(image) }.ok_or(INVALID_IMAGE)?;
        if target.is_some_and(|target| !target.runs_on(self.settings.architecture)) {
            return Err(NO_BINARY_FOR_GPU);
        }
        let code = match image {
            Image::Library(bytes) => Code::Library(Library::open(&bytes)?),
            Image::Ptx(text) => Code::Ptx(interpreted::load(&text)?),
        };
        let index = self.modules.insert(Module { context, code });
        Ok(self.modules.handle(index))
    }

    /// `cuModuleUnload`: queued kernels of the module fail when they run.
    pub fn module_unload(&mut self, handle: usize) -> Result {
        self.current()?;
        let index = self.modules.find(handle).ok_or(INVALID_HANDLE)?;
        self.forget_module(index);
        Ok(())
    }

    /// Forgets a module and its kernels.
    pub fn forget_module(&mut self, index: usize) {
        self.modules.remove(index);
        let functions: Vec<usize> = self
            .functions
            .iter()
            .filter(|(_, function)| function.module == index)
            .map(|found| found.0)
            .collect();
        for function in functions {
            self.functions.remove(function);
        }
    }

    /// `cuModuleGetFunction`
    pub fn module_function(&mut self, module: usize, name: &str) -> Result<usize> {
        self.current()?;
        let module = self.modules.find(module).ok_or(INVALID_HANDLE)?;
        let begin = match &self.modules[module].code {
            Code::Library(library) => library.kernel(name).map(Begin::Native),
            Code::Ptx(code) => code.function(name).map(Begin::Ptx),
        };
        let begin = begin.ok_or(NOT_FOUND)?;
        let index = self.functions.insert(Function { module, begin, name: fnv(name) });
        Ok(self.functions.handle(index))
    }

    /// `cuFuncGetAttribute`: returns the value of a simple kernel.
    pub fn function_attribute(&mut self, function: usize, attribute: i32) -> Result<i32> {
        self.functions.find(function).ok_or(INVALID_HANDLE)?;
        match attribute {
            0 => Ok(THREADS as i32),
            1..=3 | 7 | 9 => Ok(0),
            4 => Ok(32),
            5 | 6 => Ok(80),
            8 => Ok(SHARED as i32),
            _ => Err(INVALID_VALUE),
        }
    }

    /// `cuLaunchKernel`
    ///
    /// # Safety
    /// `parameters` must point to an array with a pointer to each argument of the kernel; for a
    /// kernel without arguments it may be null.
    pub unsafe fn launch(
        &mut self,
        function: usize,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        stream: usize,
        parameters: *mut *mut c_void,
    ) -> Result {
        let stream = self.stream(stream)?;
        let function = self.functions.find(function).ok_or(INVALID_HANDLE)?;
        let Function { module, begin, name } = self.functions[function];
        if self.modules[module].context != self.streams[stream].context {
            return Err(INVALID_HANDLE);
        }
        let threads = block.iter().map(|size| u64::from(*size)).product::<u64>();
        let fits = threads <= THREADS && block.iter().all(|size| *size <= 1024) && block[2] <= 64;
        let grid_fits = grid[0] <= i32::MAX as u32 && grid[1].max(grid[2]) <= 65_535;
        if !fits || !grid_fits || shared > SHARED || grid.contains(&0) || block.contains(&0) {
            if let (Code::Ptx(code), Begin::Ptx(kernel)) = (&self.modules[module].code, begin) {
                let what = format!(
                    "a grid of {grid:?} blocks of {block:?} threads, {shared} bytes of dynamic shared memory"
                );
                interpreted::refused(&code.functions[kernel], what);
            }
            return Err(INVALID_VALUE);
        }
        let (launch, words) = match (&self.modules[module].code, begin) {
            (Code::Library(library), Begin::Native(entry)) => {
                let library = Arc::clone(library);
                // SAFETY: the caller promises a pointer to each argument, and the module is loaded.
                unsafe { self.native(library, entry, grid, block, shared, parameters) }
            }
            (Code::Ptx(code), Begin::Ptx(kernel)) => {
                let code = Arc::clone(code);
                let device = self.contexts[self.streams[stream].context].device;
                let shape = ptx::Shape { grid, block, shared };
                let order = self.settings.interleaving;
                let seed = self.rng.next();
                let null_behind = self.settings.null_behind_arguments;
                let arguments = Arguments::read(&code.functions[kernel], parameters, null_behind)?;
                let launch = Interpreted::new(code, kernel, shape, device, arguments, order, seed)?;
                let words = launch.words.clone();
                (Launch::Interpreted(Box::new(launch)), words)
            }
            _ => return Err(INVALID_HANDLE),
        };
        let blocks = grid.iter().map(|size| u64::from(*size)).product::<u64>();
        let seconds = self.clock.of_kernel(name, blocks * threads);
        let action = Action::Launch(Box::new(launch), module, seconds);
        let operation = self.enqueue(stream, action, Vec::new());
        self.note_arguments(stream, operation, name, &words);
        Ok(())
    }

    /// Makes a launch of a shared library. Returns also the first 8 bytes of each argument.
    ///
    /// # Safety
    /// As for [`Driver::launch`].
    unsafe fn native(
        &mut self,
        library: Arc<Library>,
        entry: Entry,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        parameters: *mut *mut c_void,
    ) -> (Launch, Vec<u64>) {
        // SAFETY: the caller promises a pointer to each argument, and the module is loaded.
        let arguments = unsafe { entry(0, parameters.cast()) };
        let mut launch =
            Native { library, entry, arguments, grid, block, shared, done: 0, first: 0, stride: 1 };
        if self.settings.mode == Mode::Random {
            let blocks = launch.blocks();
            launch.first = self.rng.below(blocks);
            launch.stride = 1 + self.rng.below(blocks);
            while common_divisor(launch.stride, blocks) != 1 {
                launch.stride += 1;
            }
        }
        let mut words = Words { arguments, count: 0, at: [0; 32] };
        // SAFETY: `arguments` is the copy that `entry` made.
        unsafe { entry(3, (&raw mut words).cast()) };
        (Launch::Native(launch), words.at[..words.count as usize].to_vec())
    }

    /// Runs some of the remaining blocks: in random mode often a part of them, otherwise all.
    /// Fails if the kernel's module was unloaded; `module` is the index of the module.
    pub fn launch_piece(&mut self, launch: &mut Launch, module: usize) -> Result<Progress> {
        if self.modules.get(module).is_none() {
            eprintln!("cuda-emu: a module was unloaded while a kernel of it was queued");
            return Err(ILLEGAL_ADDRESS);
        }
        let launch = match launch {
            Launch::Native(launch) => launch,
            Launch::Interpreted(launch) => return self.interpret(launch),
        };
        if launch.done == 0 {
            self.faults.kernel()?;
        }
        let blocks = launch.blocks();
        let rest = blocks - launch.done;
        let torn = self.settings.mode == Mode::Random && rest > 1 && self.rng.below(2) == 1;
        let end = launch.done + if torn { 1 + self.rng.below(rest - 1) } else { rest };
        while launch.done < end {
            let index = ((launch.first as u128 + launch.done as u128 * launch.stride as u128)
                % blocks as u128) as usize;
            let seed = if self.settings.mode == Mode::Random {
                self.rng.next()
            } else {
                self.settings.seed
            };
            run_block(launch, index, seed)?;
            launch.done += 1;
        }
        Ok(if end == blocks { Progress::Finished } else { Progress::Partial })
    }
}

fn run_block(launch: &Native, index: usize, seed: u64) -> Result {
    let ([x, y, z], [a, b, c]) = (launch.grid, launch.block);
    let (columns, rows) = (x as usize, y as usize);
    let [i, j, k] =
        [index % columns, index / columns % rows, index / columns / rows].map(|part| part as u32);
    let geometry = [x, y, z, a, b, c, i, j, k];
    // SAFETY: the library is open and made the entry and the arguments; the driver's lock is held,
    // so no other thread runs code of the library. The author of the kernel promises that its
    // memory accesses are valid, as on a device.
    let failure = unsafe {
        (launch.library.run_block)(
            launch.entry,
            launch.arguments,
            geometry.as_ptr(),
            launch.shared,
            seed,
        )
    };
    if failure.is_null() {
        return Ok(());
    }
    // SAFETY: `failure` is a C string among the library's constants.
    let text = unsafe { CStr::from_ptr(failure) }.to_string_lossy();
    eprintln!("cuda-emu: block ({i}, {j}, {k}) of a kernel failed: {text}");
    Err(LAUNCH_FAILED)
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        common_divisor(b, a % b)
    }
}
