//! All items that are meant as they are in one context: for one request, whoever asks.

use cohort::search::{ItemMatrix, ScoreForm};
use cohort_features::{Offer, Parts, Seen};
use rayon::prelude::*;

use super::{Selection, bits};
use crate::settings::MAX_FEATURE;
use crate::state::App;

/// Slots that are made vectors, and searched, by one task: whole words of bits.
const CHUNK: usize = 1 << 14;
/// Numbers that are in memory at once, at most: 128 MiB.
const MOST_NUMBERS: usize = 1 << 25;

/// Items of a selection in one context.
pub struct Within {
    chunks: Vec<ItemMatrix>,
}

impl App {
    /// Items in a context, and interactions that could have a place of their own: once they are learned, this is to be
    /// called again. Nothing where items cannot be put together from their features, or are too many for memory.
    pub fn within(&mut self, around: &Offer, among: &Selection) -> Option<(Within, Seen)> {
        let dim = self.settings.dim;
        self.index();
        let (encoder, index) = (self.encoder.as_ref()?, self.catalogue.index.as_deref()?);
        if among.count.saturating_mul(dim) > MOST_NUMBERS {
            return None;
        }
        let features = |slot: u32| index.features.get(slot as usize)?.as_deref();
        let around = encoder.around(around, index.longest)?;
        let chunk = |words: &[u64], first: u32| {
            let (mut matrix, mut parts) = (ItemMatrix::new(dim), Parts::default());
            let mut row = vec![0.0; dim];
            for at in bits::iter(words) {
                match features(first + at) {
                    Some(features) => around.row(features, &mut parts, &mut row),
                    None => index.matrix.copy((first + at) as usize, &mut row),
                }
                row.iter_mut().for_each(|x| *x = x.clamp(-MAX_FEATURE, MAX_FEATURE));
                matrix.set(at as usize, &row);
            }
            (matrix, parts)
        };
        let words = among.bits.par_chunks(CHUNK / 64).enumerate();
        let made: Vec<(ItemMatrix, Parts)> =
            words.map(|(at, words)| chunk(words, (at * CHUNK) as u32)).collect();
        let (mut chunks, mut seen) = (Vec::with_capacity(made.len()), Seen::default());
        for (matrix, parts) in made {
            if parts.are_incomplete() {
                return None;
            }
            parts.add_new(encoder, &mut seen);
            chunks.push(matrix);
        }
        Some((Within { chunks }, seen))
    }
}

impl Within {
    /// Whether all have the same score, as far as that can be decided without scoring each.
    pub(super) fn all_alike(&self, form: &ScoreForm) -> bool {
        ItemMatrix::are_alike(&self.chunks, form)
    }

    /// [`ItemMatrix::best`] of all.
    pub(super) fn best(
        &self,
        form: &ScoreForm,
        k: usize,
        wanted: &[u64],
        shifts: Option<&[f32]>,
    ) -> Vec<u32> {
        let of_chunk = |(at, matrix): (usize, &ItemMatrix)| {
            let first = at * CHUNK;
            let wanted = &wanted[(first / 64).min(wanted.len())..];
            let shifts = shifts.map(|shifts| &shifts[first.min(shifts.len())..]);
            let found = matrix.best(form, k, Some(wanted), shifts);
            found.into_iter().map(|slot| first as u32 + slot).collect()
        };
        let found: Vec<Vec<u32>> = self.chunks.par_iter().enumerate().map(of_chunk).collect();
        found.concat()
    }
}
