//! Enums whose variants have names in a text.

/// Defines an enum and the function `from_name`, which returns the variant that a name stands for.
macro_rules! named {
    ($(#[$of_enum:meta])* $Enum:ident { $($(#[$doc:meta])* $variant:ident = $($name:literal)|+,)* }) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "some names say it all")]
        pub enum $Enum { $($(#[$doc])* $variant),* }

        impl $Enum {
            /// Returns the variant that this name stands for.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($($name)|+ => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use named;
