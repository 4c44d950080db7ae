//! Codes arrays with a bound on the root of the mean square of the errors: finds the step.

use super::engine::Engine;
use super::portion::TRIES;
use super::quantiser::{Number, Quantiser, ENERGY};

/// Number of steps tried for a bound on the mean square, each 2^(1/16) times the previous one.
const STEPS: usize = 16 * 16;
/// 2^(i/16), i = 0, ..., 15.
#[rustfmt::skip]
const OCTAVE: [f64; 16] = [
    1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916,
    1.189207115002721, 1.241857812073484, 1.2968395546510096, 1.3542555469368927,
    std::f64::consts::SQRT_2, 1.4768261459394993, 1.5422108254079407, 1.6104903319492543,
    1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474,
];

/// How far from a step that was tried on the array the sample says well what another step does.
const NEAR: usize = 8;

/// The step with which the sample keeps the target.
pub(super) struct Found {
    /// Number of the tiling.
    tiling: usize,
    pub index: usize,
    /// Bits of the sample.
    bits: u64,
    /// Whether the array is likely to keep its target with this step and with no larger one.
    is_likely: bool,
}

/// A search for the index of the step with which the whole array keeps the target.
#[derive(Clone)]
struct Search {
    target: f64,
    /// Number of values of the array.
    values: usize,
    /// The index to be tried next.
    index: usize,
    /// The steps with an index of `end` or more are too large.
    end: usize,
}

impl Search {
    /// Takes the squared error of the array with the step `index`. Returns true if this step is
    /// final; otherwise moves on to the next one. Returns `None` if no step keeps the target.
    fn take(&mut self, energy: u64) -> Option<bool> {
        let Search { target, values, index, end } = *self;
        let step = target * step_of(index);
        // The squares of the errors grow at most about as fast as the square of the step.
        if holds(energy, step, target, values) {
            let room = |by: usize| holds(energy, step * step_of(by), target, values);
            self.index += (1..end - index).take_while(|&by| room(by)).count();
            return Some(self.index == index);
        }
        self.end = index;
        let enough = |by: usize| holds(energy, step / step_of(by), target, values);
        let by = (1..=index).find(|&by| enough(by)).unwrap_or(1);
        self.index = index.checked_sub(by)?;
        Some(false)
    }
}

impl<T: Number, const L: usize> Engine<T, L> {
    /// Codes `x` so that the root of the mean square of the errors is at most `target`.
    ///
    /// The search takes the squared errors of whole arrays, but which steps it will ask for can
    /// mostly be foreseen from the sample: a pass over the array tries all of these at once and
    /// codes the array with the one that seems to be final.
    pub(super) fn compress_mean(&mut self, x: &[T], target: f64, to: &mut [u8]) -> Option<usize> {
        let mut best: Option<Found> = None;
        for g in 0..self.grids.len() {
            let found = self.find_step(g, x, target)?;
            if best.as_ref().is_none_or(|best| found.bits < best.bits) {
                best = Some(found);
            }
        }
        let Found { tiling: g, index: first, is_likely, .. } = best?;
        let mut sample_is_loaded = g + 1 == self.grids.len();
        let mut search = Search { target, values: x.len(), index: first, end: STEPS };
        let mut known = [None; STEPS];
        let (mut tries, mut count, mut is_final) = ([first; TRIES], 1, is_likely);
        loop {
            let mut qs = [self.quantiser(g, target, tries[0])?; TRIES];
            for (i, &index) in tries.iter().enumerate().take(count).skip(1) {
                let Some(q) = self.quantiser(g, target, index) else {
                    // The search may not ask for this step.
                    (count, is_final) = (i, false);
                    break;
                };
                qs[i] = q;
            }
            let last = tries[count - 1];
            let step = target * step_of(last);
            let may_hold = |energy| is_final && holds(energy, step, target, x.len());
            let mut energies = [0; TRIES];
            let payload = self.payload(g, to)?;
            let coded = self.code(g, &qs[..count], x, may_hold, &mut energies[..count], payload);
            for (&index, &energy) in tries[..count].iter().zip(&energies) {
                known[index] = Some(energy);
            }
            while let Some(energy) = known[search.index] {
                if search.take(energy)? {
                    match coded {
                        Some(bytes) if search.index == last => {
                            return self.finish(g, step, step, bytes, to)
                        }
                        _ => break,
                    }
                }
            }
            if !sample_is_loaded {
                self.load_sample_for(g, x, target);
                sample_is_loaded = true;
            }
            // The squared error of the array in units of that of the sample.
            let of_sample = |engine: &mut Self, index| {
                let q = engine.quantiser(g, target, index);
                q.map_or(0, |q| engine.sample_energy(g, &q, |_, _| true).0) as f64
            };
            let ratio = energies[count - 1] as f64 / of_sample(self, last).max(1.0);
            let mut foreseen = search.clone();
            count = 0;
            loop {
                let index = foreseen.index;
                let guess = |engine: &mut Self| (ratio * of_sample(engine, index)) as u64;
                let energy = known[index].unwrap_or_else(|| guess(self));
                let found = foreseen.take(energy);
                let is_near = known[index].is_some() || index.abs_diff(last) <= NEAR;
                is_final = found == Some(true) && is_near;
                if is_final || count == 0 || (known[index].is_none() && is_near) {
                    tries[count] = index;
                    count += 1;
                }
                if found != Some(false) || !is_near || count == TRIES {
                    break;
                }
            }
        }
    }

    /// Returns the quantiser for the step with this index.
    fn quantiser(&self, g: usize, target: f64, index: usize) -> Option<Quantiser<T>> {
        let step = target * step_of(index);
        Quantiser::new(&self.grids[g], step, step, None)
    }

    /// Loads the sample, to be tried with any of the steps.
    fn load_sample_for(&mut self, g: usize, x: &[T], target: f64) {
        let least = self.quantiser(g, target, 0);
        self.load_sample(g, x, least.map_or(T::default(), |q| q.small(&self.grids[g])));
    }

    /// Finds the largest step with which the sample keeps the target.
    pub(super) fn find_step(&mut self, g: usize, x: &[T], target: f64) -> Option<Found> {
        self.load_sample_for(g, x, target);
        let (mut low, mut high) = (0, STEPS);
        while high - low > 1 {
            let middle = (low + high) / 2;
            let q = self.quantiser(g, target, middle)?;
            let keeps = |energy, values| holds(energy, target * step_of(middle), target, values);
            let (energy, values) = self.sample_energy(g, &q, keeps);
            if keeps(energy, values) {
                low = middle;
            } else {
                high = middle;
            }
        }
        if low == 0 {
            return Some(Found { tiling: g, index: 0, bits: u64::MAX, is_likely: false });
        }
        let (bits, values, spread) = self.sample_bits(g, &self.quantiser(g, target, low)?);
        // From step to step the squared error grows by 9 percent at most. If the step turns out not
        // to be the last one, coding the bits was in vain; few bits take little time.
        let per_value = bits as f64 / values;
        let is_likely = spread < 0.034 * (1.0 + 2.5 / (0.5 + per_value));
        Some(Found { tiling: g, index: low, bits, is_likely })
    }
}

/// Returns 2^(index/16), the ratio of the step with this index to the target.
pub(super) fn step_of(index: usize) -> f64 {
    (0..index / 16).fold(OCTAVE[index % 16], |s, _| s * 2.0)
}

/// Returns whether the errors keep the target, with a margin for the rounding errors of the sum.
pub(super) fn holds(energy: u64, step: f64, target: f64, values: usize) -> bool {
    let relative = step / target;
    energy as f64 * (relative * relative) <= values as f64 * (ENERGY * (1.0 - 1.0 / 65536.0))
}
