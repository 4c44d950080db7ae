//! Short schedules whose snapshots form a stack, as binary trees in the bits of one number.
//!
//! A node is a range of states. A range of several states is split: its upper child is the range above
//! the first advance from the range's first state, its lower child the range below. The bits give the
//! nodes in pre-order, lowest bit first, the upper child before the lower one: 1 for a split range, 0
//! for a single state. So the bits also give the order of the advances (1) and of the BACKWARDs (0).

use super::{Action, Kind};
use crate::error::Result;
use crate::fallible_vec;

/// A schedule for at most [`Tree::MOST_STATES`] states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree(u128);

/// The pre-order of a subtree that begins at bit `at` of `bits`: returns the bit behind it and its number of
/// states.
fn skip(bits: u128, at: u32) -> (u32, u32) {
    let (mut end, mut open, mut states) = (at, 1, 0);
    while open > 0 {
        match bits >> end & 1 {
            1 => open += 1,
            _ => (open, states) = (open - 1, states + 1),
        }
        end += 1;
    }
    (end, states)
}

impl Tree {
    /// The most states of a tree: 127 nodes; the last is always a single state.
    pub const MOST_STATES: u32 = 64;

    /// Returns the tree of these bits; `None` if they are no tree of `states` states.
    pub fn of_bits(bits: u128, states: u32) -> Option<Self> {
        if !(1..=Self::MOST_STATES).contains(&states) {
            return None;
        }
        // After k nodes, the subtrees that have begun need as many more nodes as `open` says.
        let mut open = 1u32;
        for at in 0..2 * states - 1 {
            let is_split = bits >> at & 1 == 1;
            open = if is_split { open + 1 } else { open - 1 };
            if open == 0 && at < 2 * states - 2 {
                return None;
            }
        }
        (open == 0 && bits >> (2 * states - 1) == 0).then_some(Tree(bits))
    }

    /// The bits of the tree; bits 126 and 127 are 0.
    pub fn bits(self) -> u128 {
        self.0
    }

    /// Returns the tree whose schedule has the advances and BACKWARDs of `actions`, if there is one. If
    /// the snapshots of `actions` form no stack, the schedule of the tree differs from `actions`.
    pub fn like(actions: impl Iterator<Item = Action>) -> Option<Self> {
        let (mut bits, mut nodes, mut states, mut was_forward) = (0u128, 0, 0, false);
        for action in actions {
            let is_forward = action.kind == Kind::Forward;
            let is_node = is_forward && !was_forward || action.kind == Kind::Backward;
            if is_node && nodes == 2 * Self::MOST_STATES - 1 {
                return None;
            }
            if is_node {
                bits |= u128::from(is_forward) << nodes;
                (nodes, states) = (nodes + 1, states + u32::from(!is_forward));
            }
            was_forward = is_forward;
        }
        Self::of_bits(bits, states)
    }

    /// Returns the actions of the schedule, without flags.
    pub fn actions(self) -> Result<Vec<Action>> {
        let mut actions = Vec::new();
        self.emit(&mut actions, &mut 0, 0, false)?;
        fallible_vec::push(&mut actions, Action { kind: Kind::Terminate, ts: 0, flags: 0 })?;
        Ok(actions)
    }

    /// Adds the actions that reverse the range at bit `at`, whose first state u(base) is live;
    /// `is_stored`: and stored. Moves `at` behind the range.
    fn emit(
        self,
        actions: &mut Vec<Action>,
        at: &mut u32,
        base: u32,
        is_stored: bool,
    ) -> Result<()> {
        let mut act = |kind, ts| fallible_vec::push(actions, Action { kind, ts, flags: 0 });
        let is_split = self.0 >> *at & 1 == 1;
        *at += 1;
        if !is_split {
            return act(Kind::Backward, base);
        }
        if !is_stored {
            act(Kind::Save, base)?;
        }
        let (lower, _) = skip(self.0, *at);
        let middle = base + skip(self.0, lower).1;
        (base + 1..=middle).try_for_each(|ts| act(Kind::Forward, ts))?;
        self.emit(actions, at, middle, false)?;
        fallible_vec::push(actions, Action { kind: Kind::Restore, ts: base, flags: 0 })?;
        self.emit(actions, at, base, true)
    }

    /// The trees that one rotation makes of this one. A rotation changes one split and leaves all other
    /// splits where they are; rotations lead from any tree to any other with as many states.
    pub fn rotations(self) -> impl Iterator<Item = Tree> {
        let bits = self.0;
        let is_split = move |at: u32| bits >> at & 1 == 1;
        let nodes = skip(bits, 0).0;
        // A split range within another: 1 (1 A B) C becomes 1 A (1 B C), and 1 A (1 B C) becomes
        // 1 (1 A B) C. Both move the bit of the inner range over A.
        let upper = (0..nodes).filter(move |&at| is_split(at) && is_split(at + 1)).map(move |at| {
            let end = skip(bits, at + 2).0;
            Tree(moved(bits, at + 1, end - 1))
        });
        let lower = (0..nodes).filter(move |&at| is_split(at)).filter_map(move |at| {
            let inner = skip(bits, at + 1).0;
            is_split(inner).then(|| Tree(moved(bits, inner, at + 1)))
        });
        upper.chain(lower)
    }
}

/// Moves the bit at `from`, which is 1, to `to`; the bits between make room.
fn moved(bits: u128, from: u32, to: u32) -> u128 {
    let below = |at: u32| (1u128 << at) - 1;
    let without = bits & below(from) | (bits >> (from + 1)) << from;
    without & below(to) | 1 << to | (without >> to) << (to + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    /// All trees of `states` states, by rotations from the first one.
    fn all(states: u32) -> Vec<Tree> {
        let first = Tree::of_bits((1 << (states - 1)) - 1, states).unwrap();
        let mut known = vec![first];
        let mut next = 0;
        while next < known.len() {
            for tree in known[next].rotations() {
                if !known.contains(&tree) {
                    known.push(tree);
                }
            }
            next += 1;
        }
        known
    }

    /// Rotations lead to all trees, whose number is a Catalan number, and each tree
    /// is a schedule that reverses all steps and has the same tree.
    #[test]
    fn rotations_lead_to_every_schedule() {
        for (states, count) in [(1, 1), (2, 1), (3, 2), (4, 5), (5, 14), (6, 42), (7, 132)] {
            let trees = all(states);
            assert_eq!(trees.len(), count);
            for tree in trees {
                assert_eq!(Tree::of_bits(tree.bits(), states), Some(tree));
                let schedule = Schedule::of_tree(tree).unwrap();
                assert_eq!(schedule.steps, states);
                assert_eq!(Tree::like(schedule.actions()), Some(tree));
                let again = Schedule::of_terms(states, schedule.terms()).unwrap();
                assert_eq!(again.fingerprint(false).unwrap(), schedule.fingerprint(false).unwrap());
                assert_eq!(again.snapshots, schedule.snapshots);
            }
        }
    }

    #[test]
    fn the_longest_trees_have_their_terms() {
        for schedule in
            [Schedule::store_all(64), Schedule::revolve(64, 1), Schedule::revolve(64, 9)]
        {
            let tree = Tree::like(schedule.unwrap().actions()).unwrap();
            let schedule = Schedule::of_tree(tree).unwrap();
            let terms = schedule.terms();
            assert!(terms.iter().all(|term| *term >= 0));
            let again = Schedule::of_terms(64, terms).unwrap();
            assert_eq!(
                (again.terms(), again.fingerprint(true).unwrap()),
                (terms, schedule.fingerprint(true).unwrap())
            );
            assert!(tree.rotations().all(|tree| Tree::of_bits(tree.bits(), 64) == Some(tree)));
        }
        assert_eq!(Tree::like(Schedule::revolve(65, 9).unwrap().actions()), None);
    }

    /// Every number of up to 13 bits that is no pre-order of a tree is refused.
    #[test]
    fn other_bits_are_no_tree() {
        for states in 1..=6 {
            let trees = all(states);
            let valid = (0..1u128 << 13).filter_map(|bits| Tree::of_bits(bits, states));
            assert_eq!(valid.count(), trees.len());
        }
        assert!([0, 65].iter().all(|&states| Tree::of_bits(0, states).is_none()));
        assert!(Schedule::of_terms(3, [1 << 5 | 1, 2, 0]).is_err());
        assert!(Schedule::of_terms(3, [9 << 5 | 1, 3, 0]).is_err());
    }
}
