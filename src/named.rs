//! Enumerations whose variants have names.

/// Declares an enumeration, the list of its variants and the name of each of them.
macro_rules! named {
    ($(#[$of_enum:meta])* $visibility:vis enum $enum:ident {
        $($(#[$of_variant:meta])* $variant:ident $(= $number:literal)? => $name:literal,)*
    }) => {
        $(#[$of_enum])*
        $visibility enum $enum {
            $($(#[$of_variant])* $variant $(= $number)?,)*
        }

        impl $enum {
            /// All variants, in the order of their declaration.
            $visibility const ALL: [$enum; [$($name),*].len()] = [$($enum::$variant),*];

            /// Returns the name of the variant.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)*
                }
            }

            /// Returns the name of the variant as a C string.
            $visibility const fn c_name(self) -> &'static std::ffi::CStr {
                let with_nul = match self {
                    $($enum::$variant => concat!($name, "\0"),)*
                };
                match std::ffi::CStr::from_bytes_with_nul(with_nul.as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }
            }
        }
    };
}
pub(crate) use named;
