//! Whatever an instance has been through, steps of sequences that just go on allocate nothing.

use allocation_counter::measure;
use tlaloc_engine::{Arrival, SequenceId, Ticket};

use super::World;
use crate::support::{check, step_all};

/// Rounds in which buffers may still grow.
const WARMING: usize = 6;
const MEASURED: usize = 6;

impl World {
    /// Ends the schedule with rounds of steps of all sequences for which nothing runs out.
    pub(super) fn calm_down(&mut self) -> Result<(), String> {
        let ids = self.unhindered();
        if ids.is_empty() || !self.reference.has_pools() {
            return Ok(());
        }
        let arrival = |id: SequenceId| Arrival {
            ticket: Ticket(0),
            sequence: Some(id),
            start: false,
            end: false,
            tokens: Ok(vec![1]),
            at: self.now,
            generation: None,
        };
        let mut arrivals: Vec<_> = ids.into_iter().map(arrival).collect();
        for round in 0..WARMING + MEASURED {
            let mut all_ran = true;
            let counted = measure(|| {
                let (engine, packed) = (&mut self.engine, &mut self.packed);
                let (given, now) = (&mut self.given, &mut self.now);
                all_ran = step_all(engine, packed, given, now, &mut arrivals).all_ran;
            });
            // Buckets have holes at times.
            if !all_ran {
                return Ok(());
            }
            if round >= WARMING {
                let allocations = counted.count_total;
                check(allocations == 0, || format!("round {round}: {allocations} allocations"))?;
            }
        }
        self.saw("calm");
        Ok(())
    }

    /// Sequences that have room for all rounds, as many as nothing runs out for.
    fn unhindered(&self) -> Vec<SequenceId> {
        let geometry = self.engine.geometry();
        let ring_pages = geometry.windowed().map_or(0, |pools| pools.ring_pages);
        let mut free = self.engine.free();
        let mut ids = Vec::new();
        for live in self.engine.sequences() {
            let drafts = 2 * geometry.draft_tokens();
            let length = live.length + WARMING + MEASURED + drafts;
            let blocks = length.div_ceil(geometry.block_size());
            let pages = blocks.saturating_sub(live.pages.len());
            let ring = blocks.min(ring_pages).saturating_sub(live.ring.len());
            if length <= geometry.max_context() && pages <= free.pages && ring <= free.ring_pages {
                free.pages -= pages;
                free.ring_pages -= ring;
                ids.push(live.id.clone());
            }
        }
        ids.sort_unstable();
        ids
    }
}
