//! Faults put between the engine and what checks it, to show that the checks see them.

use crate::support::{Packed, Random};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A reply is dropped.
    DropReply,
    /// A reply comes twice.
    RepeatReply,
    /// A block table names the padding page.
    PaddingPage,
    /// A token goes to the slot after its own.
    NextSlot,
    /// A token goes to the windowed slot after its own.
    NextWindowSlot,
    /// A row's ring is turned by a page.
    TurnedRing,
    /// A row names another state slot.
    OtherStateSlot,
    /// A padding row has length 0.
    ZeroLength,
    /// The device forgets what it holds.
    ForgetfulDevice,
    /// The engine believes that a failed execution worked.
    HiddenFailure,
    /// The engine is told of a later time than it is.
    FastClock,
}

impl Sabotage {
    pub const ALL: [Sabotage; 11] = [
        Sabotage::DropReply,
        Sabotage::RepeatReply,
        Sabotage::PaddingPage,
        Sabotage::NextSlot,
        Sabotage::NextWindowSlot,
        Sabotage::TurnedRing,
        Sabotage::OtherStateSlot,
        Sabotage::ZeroLength,
        Sabotage::ForgetfulDevice,
        Sabotage::HiddenFailure,
        Sabotage::FastClock,
    ];

    /// Whether a call can be spoiled so, and if so, spoils it.
    pub fn spoil(
        self,
        packed: &mut Packed,
        rows: usize,
        columns: usize,
        random: &mut Random,
    ) -> bool {
        let advance = |slots: &mut [i32]| {
            let slot = slots.iter_mut().find(|slot| **slot >= 0);
            slot.map(|slot| *slot += 1).is_some()
        };
        match self {
            Sabotage::PaddingPage => {
                packed.block_tables[0] = 0;
                true
            }
            Sabotage::NextSlot => advance(&mut packed.slot_mapping),
            Sabotage::NextWindowSlot => advance(&mut packed.window_slot_mapping),
            Sabotage::TurnedRing => {
                let ring = packed.window_block_tables.get_mut(..columns).unwrap_or_default();
                let listed = ring.iter().take_while(|&&page| page != 0).count();
                ring[..listed].rotate_left(listed.min(1));
                listed > 1 && ring[0] != ring[1]
            }
            Sabotage::OtherStateSlot => {
                // A row that starts at position 0 may start in any slot.
                let goes_on = packed.positions.first().is_some_and(|&position| position > 1);
                match packed.state_slots.first_mut().filter(|_| goes_on) {
                    Some(slot) => {
                        *slot += 1 + random.below(3) as i32;
                        true
                    }
                    None => false,
                }
            }
            Sabotage::ZeroLength => match packed.seq_lens.get_mut(rows) {
                Some(length) => {
                    *length = 0;
                    true
                }
                None => false,
            },
            _ => false,
        }
    }
}
