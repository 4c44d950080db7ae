//! The streams of a snapshot: their order, and the records in which they lie.

use super::coder::Shape;
use super::mask;
use super::settings::Settings;
use super::stream::padded;
use crate::error::Result;
use crate::layout::{Layout, Parts, Previous};
use std::ops::Range;

/// A record of a compressed snapshot that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A part of the state, into the fields of this part. The fields of part 0 are decoded before
    /// those of part 1.
    Part(usize),
    /// Part 0 of the state before: every field that has a previous time level, into the field that
    /// is this previous level.
    AsPrevious,
}

impl Record {
    /// The part whose streams the record consists of.
    pub(super) fn part(self) -> usize {
        match self {
            Record::Part(part) => part,
            Record::AsPrevious => 0,
        }
    }
}

/// The streams of the snapshots of one layout, of which every part is a record of its own.
pub(super) struct Streams {
    /// The fields in the order of their streams: a previous time level comes after its later level.
    /// The streams of a record are in this order, too.
    pub order: Vec<usize>,
    /// The ranges of `order` whose fields are related by `previous_of`.
    pub groups: Vec<Range<usize>>,
    pub part_of: Vec<usize>,
    /// For each field, the field whose previous time level it is.
    later: Vec<Option<usize>>,
    /// The fields of part 1, each with its later level.
    previous: Vec<Previous>,
    /// Where the streams of part 1 begin in the output of a codec, in bytes; those of part 0 always
    /// end before.
    pub second: usize,
}

impl Streams {
    /// The streams of states of `layout` that are cut into `parts`.
    pub fn new(settings: &Settings, layout: &Layout, parts: &Parts) -> Result<Self> {
        let mut part_of = vec![0; layout.fields.len()];
        for (number, part) in parts.parts.iter().enumerate() {
            part.fields.iter().for_each(|&field| part_of[field] = number);
        }
        let first = shapes_of(layout).zip(&part_of).filter(|(_, &part)| part == 0);
        let second = most_bytes(settings, first.map(|(shape, _)| shape), Shape::bytes)?;
        let later: Vec<Option<usize>> =
            layout.fields.iter().map(|f| f.previous_of.map(|j| j as usize)).collect();
        let (order, groups) = groups_of(&later);
        Ok(Streams { order, groups, part_of, later, previous: parts.previous.clone(), second })
    }

    /// The field of stream `k` of the order, if it is in one of `parts`.
    pub fn coded(&self, k: usize, parts: &Range<usize>) -> Option<usize> {
        Some(self.order[k]).filter(|&i| parts.contains(&self.part_of[i]))
    }

    /// The later level of field `i`, where `parts` of a state are coded: a field whose later level is not
    /// among them is coded as a field that is no previous level.
    pub fn later(&self, i: usize, parts: &Range<usize>) -> Option<usize> {
        self.later[i].filter(|&j| parts.contains(&self.part_of[j]))
    }

    /// Whether the stream of field `i` may hold the difference to field `j`, its later level: a
    /// record cannot need one that is decoded after it.
    pub fn may_lean(&self, i: usize, j: usize) -> bool {
        self.later[i] == Some(j) && self.part_of[j] <= self.part_of[i]
    }

    /// The fields that the stream of field `i` in `record` is decoded into.
    pub fn targets(&self, record: Record, i: usize) -> impl Iterator<Item = usize> + '_ {
        let own = matches!(record, Record::Part(_)).then_some(i);
        let levels = if own.is_some() { &[] } else { &self.previous[..] };
        own.into_iter().chain(levels.iter().filter(move |p| p.later == i).map(|p| p.field))
    }

    /// Whether the decoding of `record` writes to field `i`.
    pub fn writes(&self, record: Record, i: usize) -> bool {
        match record {
            Record::Part(part) => self.part_of[i] == part,
            Record::AsPrevious => self.previous.iter().any(|previous| previous.field == i),
        }
    }

    /// Whether the decoding of `record` reads field `i`, which an earlier record was decoded into.
    pub fn reads(&self, record: Record, i: usize) -> bool {
        record == Record::Part(1) && self.previous.iter().any(|previous| previous.later == i)
    }
}

pub(super) fn shapes_of(layout: &Layout) -> impl Iterator<Item = Shape> + '_ {
    layout.fields.iter().map(|f| Shape { n: f.n.map(|n| n as usize), scalar: f.scalar })
}

/// Makes one coder for each shape of the fields. Returns the coders, and for each field the index of
/// its coder.
pub(super) fn coders_of<C>(
    layout: &Layout,
    mut make: impl FnMut(Shape) -> Result<C>,
) -> Result<(Vec<C>, Vec<usize>)> {
    let (mut kinds, mut coders) = (Vec::new(), Vec::new());
    let coder_of = shapes_of(layout).map(|shape| {
        let known = kinds.iter().position(|&kind| kind == shape);
        if known.is_none() {
            kinds.push(shape);
            coders.push(make(shape)?);
        }
        Ok(known.unwrap_or(kinds.len() - 1))
    });
    let coder_of = coder_of.collect::<Result<_>>()?;
    Ok((coders, coder_of))
}

/// The most bytes of the mask of an array; 0 if the settings name no fill value.
pub(super) fn mask_bytes(settings: &Settings, shape: Shape) -> usize {
    if settings.masked().is_some() && shape.scalar.is_coded() {
        mask::most_bytes(shape)
    } else {
        0
    }
}

/// The most bytes of the streams of arrays of these shapes, if those whose types the codec codes are
/// coded, with room for payloads of at least `least` bytes and for masks.
pub(super) fn most_bytes(
    settings: &Settings,
    mut shapes: impl Iterator<Item = Shape>,
    least: fn(&Shape) -> usize,
) -> Result<usize> {
    shapes.try_fold(0usize, |sum, shape| {
        let coded = shape.scalar.is_coded().then(|| settings.method.most_bytes(shape));
        let payload = coded.unwrap_or(Ok(shape.bytes()))?;
        let mask = mask_bytes(settings, shape);
        Ok(sum.saturating_add(padded(payload.max(least(&shape)))).saturating_add(mask))
    })
}

/// Returns the fields in an order in which every previous time level comes after its later level,
/// and the groups of related fields as ranges of this order.
fn groups_of(later: &[Option<usize>]) -> (Vec<usize>, Vec<Range<usize>>) {
    let all = 0..later.len();
    let (mut order, mut groups) = (Vec::new(), Vec::new());
    for root in all.clone().filter(|&i| later[i].is_none()) {
        let begin = order.len();
        order.push(root);
        let mut k = begin;
        while let Some(&level) = order.get(k) {
            order.extend(all.clone().filter(|&i| later[i] == Some(level)));
            k += 1;
        }
        groups.push(begin..order.len());
    }
    (order, groups)
}
