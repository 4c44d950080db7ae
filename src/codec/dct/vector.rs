//! The values of `L` tiles that are coded together, one tile per SIMD lane.

use crate::codec::simd::Level;

/// One value of each of `L` tiles; 64 bytes, a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Vector<T, const L: usize>(pub [T; L]);

impl<T: Copy + Default, const L: usize> Default for Vector<T, L> {
    #[inline(always)]
    fn default() -> Self {
        Vector([T::default(); L])
    }
}

/// Transposes a square of `L` x `L` values.
#[inline(always)]
pub(super) fn transpose<T: Copy, const L: usize>(
    from: &[Vector<T, L>; L],
    to: &mut [Vector<T, L>; L],
    level: Level,
) {
    #[cfg(target_arch = "x86_64")]
    match (level, size_of::<T>(), L) {
        #[cfg(avx512)]
        (Level::Avx512, 4, 16) => {
            // SAFETY: `level` has AVX-512 F, and both squares have 16 x 16 words of 4 bytes.
            return unsafe { x86_512::transpose_16(from.as_ptr().cast(), to.as_mut_ptr().cast()) };
        }
        #[cfg(avx512)]
        (Level::Avx512, 8, 8) => {
            // SAFETY: `level` has AVX-512 F, and both squares have 8 x 8 words of 8 bytes.
            return unsafe { x86_512::transpose_8(from.as_ptr().cast(), to.as_mut_ptr().cast()) };
        }
        (Level::Avx2, 4, 16) => {
            // SAFETY: `level` has AVX2, and both squares have 16 x 16 words of 4 bytes.
            return unsafe { x86::transpose_16_by_8(from.as_ptr().cast(), to.as_mut_ptr().cast()) };
        }
        _ => {}
    }
    let _ = level;
    for (i, to) in to.iter_mut().enumerate() {
        for (to, from) in to.0.iter_mut().zip(from) {
            *to = from.0[i];
        }
    }
}

#[cfg(avx512)]
#[allow(clippy::incompatible_msrv)] // `avx512` is set where the compiler has these functions.
mod x86_512 {
    use std::arch::x86_64::*;

    /// Defines the transposition of `$n` rows of `$n` words, by recursive exchange of off-diagonal
    /// blocks. `$exchange` is one step of it: it exchanges elements between rows i and i + `BIT`, a
    /// constant so that the rows stay in registers. `$index` has the numbers of the elements.
    macro_rules! transposition {
        ($transpose:ident, $exchange:ident, $n:literal, [$($bit:literal)*], $index:expr,
         $set:ident, $add:ident, $test:ident, $mask_add:ident, $permute:ident) => {
            /// # Safety
            /// `from` and `to` must have `$n` rows of 64 bytes, aligned to 64 bytes; the machine
            /// must have AVX-512 F.
            #[inline]
            #[target_feature(enable = "avx512f")]
            pub unsafe fn $transpose(from: *const __m512i, to: *mut __m512i) {
                let mut a = [_mm512_setzero_si512(); $n];
                for (i, a) in a.iter_mut().enumerate() {
                    // SAFETY: the caller promises `$n` rows at `from`, and i < `$n`.
                    *a = unsafe { _mm512_load_si512(from.add(i)) };
                }
                $($exchange::<$bit>(&mut a);)*
                for (i, a) in a.iter().enumerate() {
                    // SAFETY: the caller promises `$n` rows at `to`, and i < `$n`.
                    unsafe { _mm512_store_si512(to.add(i), *a) };
                }
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            fn $exchange<const BIT: usize>(a: &mut [__m512i; $n]) {
                let (index, bit) = ($index, $set(BIT as _));
                let odd = $test(index, bit);
                let low = $mask_add(index, odd, index, $set(($n - BIT) as _));
                let high = $mask_add($add(index, bit), odd, index, $set($n));
                for k in 0..$n / 2 {
                    let i = k + (k & BIT.wrapping_neg());
                    let (x, y) = (a[i], a[i + BIT]);
                    a[i] = $permute(x, low, y);
                    a[i + BIT] = $permute(x, high, y);
                }
            }
        };
    }
    transposition!(
        transpose_16, exchange_16, 16, [8 4 2 1],
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_set1_epi32, _mm512_add_epi32, _mm512_test_epi32_mask, _mm512_mask_add_epi32,
        _mm512_permutex2var_epi32
    );
    transposition!(
        transpose_8, exchange_8, 8, [4 2 1], _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
        _mm512_set1_epi64, _mm512_add_epi64, _mm512_test_epi64_mask, _mm512_mask_add_epi64,
        _mm512_permutex2var_epi64
    );
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    /// `from` and `to` must have 16 rows of 16 words of 4 bytes, aligned to 64 bytes; the machine
    /// must have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn transpose_16_by_8(from: *const f32, to: *mut f32) {
        for (read, write) in [(0, 0), (8, 128), (128, 8), (136, 136)] {
            // SAFETY: all four blocks of 8 x 8 words are inside the squares of 16 x 16 words at
            // `from` and `to`; the two blocks off the diagonal change places.
            unsafe { store(to.add(write), block(from.add(read))) };
        }
    }

    /// # Safety
    /// Each of the addresses `from` + 16 i, i < 8, must have 8 readable words; the machine must
    /// have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn block(from: *const f32) -> [__m256; 8] {
        let mut a = [_mm256_setzero_ps(); 8];
        for (i, a) in a.iter_mut().enumerate() {
            // SAFETY: the caller promises 8 readable words at this address.
            *a = unsafe { _mm256_loadu_ps(from.add(16 * i)) };
        }
        let mut b = a;
        for i in 0..4 {
            b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
            b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
        }
        for i in [0, 4] {
            a[i] = _mm256_shuffle_ps::<0x44>(b[i], b[i + 2]);
            a[i + 1] = _mm256_shuffle_ps::<0xee>(b[i], b[i + 2]);
            a[i + 2] = _mm256_shuffle_ps::<0x44>(b[i + 1], b[i + 3]);
            a[i + 3] = _mm256_shuffle_ps::<0xee>(b[i + 1], b[i + 3]);
        }
        for i in 0..4 {
            b[i] = _mm256_permute2f128_ps::<0x20>(a[i], a[i + 4]);
            b[i + 4] = _mm256_permute2f128_ps::<0x31>(a[i], a[i + 4]);
        }
        b
    }

    /// # Safety
    /// Each of the addresses `to` + 16 i, i < 8, must have room for 8 words; the machine must have
    /// AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(to: *mut f32, rows: [__m256; 8]) {
        for (i, row) in rows.into_iter().enumerate() {
            // SAFETY: the caller promises room for 8 words at this address.
            unsafe { _mm256_storeu_ps(to.add(16 * i), row) };
        }
    }
}
