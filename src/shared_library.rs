//! Shared libraries that are opened at run time: the library is linked with none of NVIDIA's.

use std::ffi::{c_void, CStr};

/// Opens the library `name`, which stays open until the process ends. The error is the text of the
/// system's loader.
pub fn open(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: `name` is a C string. Opening a library runs its initialisers, as in every program
    // that is linked with it.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: `dlerror` returns NULL, or a C string that stays valid until this thread calls a
    // function of the loader again.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() { c"unknown error" } else { CStr::from_ptr(text) }.to_string_lossy()
    };
    let name = name.to_string_lossy();
    Err(if text.contains(&*name) { text.into_owned() } else { format!("{name}: {text}") })
}

/// Declares a struct of functions of a library, each with its symbol and its type in C.
macro_rules! functions {
    ($(#[$doc:meta])* $name:ident: $($field:ident = $symbol:literal: fn($($argument:ty),*) -> $output:ty;)*) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> $output,)*
        }

        impl $name {
            /// Looks up all functions. The error is the name of a function that the library lacks.
            fn of(library: *mut c_void) -> std::result::Result<Self, &'static CStr> {
                Ok($name {
                    $($field: {
                        // SAFETY: `library` is the handle of an open library.
                        let address = unsafe { libc::dlsym(library, $symbol.as_ptr()) };
                        if address.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: all versions of the library that have this function declare it
                        // with these types (C's enumerations are ints).
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $output>(address) }
                    },)*
                })
            }
        }
    };
}
pub(crate) use functions;
