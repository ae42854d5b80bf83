//! What sequences hold of an instance: pages, ring pages, state slots.

use std::fmt;

use crate::Geometry;
use crate::allocator::Allocator;

/// A kind of thing that sequences hold and that can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// KV pages of the full-history pools.
    Pages,
    /// KV pages of the windowed pools, which form a sequence's ring.
    RingPages,
    /// State slots of the linear-attention pools.
    StateSlots,
}

impl Resource {
    /// In the order in which a shortage is told (sequence mode §10).
    pub const ALL: [Resource; 3] = [Resource::RingPages, Resource::Pages, Resource::StateSlots];
}

/// How much of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// KV pages.
    pub pages: usize,
    /// Ring pages, 0 without windowed pools.
    pub ring_pages: usize,
    /// State slots, 0 without linear attention.
    pub state_slots: usize,
}

impl Amounts {
    /// How much of `resource`.
    pub fn of(&self, resource: Resource) -> usize {
        match resource {
            Resource::Pages => self.pages,
            Resource::RingPages => self.ring_pages,
            Resource::StateSlots => self.state_slots,
        }
    }

    /// How much of all resources together.
    pub(crate) fn sum(self) -> usize {
        self.pages + self.ring_pages + self.state_slots
    }

    pub(crate) fn plus(self, other: Amounts) -> Amounts {
        Amounts {
            pages: self.pages + other.pages,
            ring_pages: self.ring_pages + other.ring_pages,
            state_slots: self.state_slots + other.state_slots,
        }
    }

    pub(crate) fn minus(self, other: Amounts) -> Amounts {
        Amounts {
            pages: self.pages.saturating_sub(other.pages),
            ring_pages: self.ring_pages.saturating_sub(other.ring_pages),
            state_slots: self.state_slots.saturating_sub(other.state_slots),
        }
    }

    /// The first resource of which `self` is more than `available`.
    pub(crate) fn beyond(self, available: Amounts) -> Option<Resource> {
        Resource::ALL.into_iter().find(|&resource| self.of(resource) > available.of(resource))
    }

    /// What a sequence that holds `held` lacks to have `length` positions (sequence mode §10).
    pub(crate) fn lacking(length: usize, held: &Held, geometry: &Geometry) -> Amounts {
        let blocks = geometry.blocks_for(length);
        let slots = geometry.state_slots_each();
        Amounts {
            pages: blocks.saturating_sub(held.pages.len()),
            ring_pages: blocks.min(geometry.ring_pages()).saturating_sub(held.ring.len()),
            state_slots: slots.saturating_sub(held.state_slots.len()),
        }
    }
}

impl fmt::Display for Amounts {
    /// Pages always, the others where there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} page(s)", self.pages)?;
        if self.ring_pages > 0 {
            write!(f, ", {} windowed page(s)", self.ring_pages)?;
        }
        if self.state_slots > 0 {
            write!(f, ", {} state slot(s)", self.state_slots)?;
        }
        Ok(())
    }
}

/// What one sequence or request holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// Its KV pages, in the order of its positions.
    pub pages: Vec<usize>,
    /// Its ring pages: page `b` of its positions is `ring[b % R]`.
    pub ring: Vec<usize>,
    /// Its state slots.
    pub state_slots: Vec<usize>,
}

impl Held {
    pub fn amounts(&self) -> Amounts {
        Amounts {
            pages: self.pages.len(),
            ring_pages: self.ring.len(),
            state_slots: self.state_slots.len(),
        }
    }

    /// What is held of `resource`.
    pub fn of(&self, resource: Resource) -> &[usize] {
        match resource {
            Resource::Pages => &self.pages,
            Resource::RingPages => &self.ring,
            Resource::StateSlots => &self.state_slots,
        }
    }

    /// Adds the first `amounts` of `other`.
    pub fn extend(&mut self, other: &Held, amounts: Amounts) {
        self.pages.extend_from_slice(&other.pages[..amounts.pages]);
        self.ring.extend_from_slice(&other.ring[..amounts.ring_pages]);
        self.state_slots.extend_from_slice(&other.state_slots[..amounts.state_slots]);
    }
}

/// What an instance can hand out.
#[derive(Debug)]
pub(crate) struct Resources {
    pages: Allocator,
    ring_pages: Allocator,
    state_slots: Allocator,
    /// The most that one sequence can come to hold.
    most: Amounts,
}

impl Resources {
    pub fn new(geometry: &Geometry) -> Resources {
        let pages = Allocator::pages(geometry.num_blocks());
        let ring_pages = Allocator::pages(geometry.windowed().map_or(0, |pools| pools.num_blocks));
        let state_slots = Allocator::numbers(geometry.num_state_slots().unwrap_or(0));
        let most = Amounts::lacking(geometry.max_context(), &Held::default(), geometry);
        Resources {
            most: Amounts {
                pages: most.pages.min(pages.total()),
                ring_pages: most.ring_pages.min(ring_pages.total()),
                state_slots: most.state_slots.min(state_slots.total()),
            },
            pages,
            ring_pages,
            state_slots,
        }
    }

    /// Rows of host memory, for what gives up its place on the device.
    pub fn of_host(rows: Amounts) -> Resources {
        Resources {
            pages: Allocator::numbers(rows.pages),
            ring_pages: Allocator::numbers(rows.ring_pages),
            state_slots: Allocator::numbers(rows.state_slots),
            most: Amounts::default(),
        }
    }

    /// What no sequence holds.
    pub fn free(&self) -> Amounts {
        self.each(Allocator::free)
    }

    /// What sequences can hold, free or not.
    pub fn total(&self) -> Amounts {
        self.each(Allocator::total)
    }

    fn each(&self, count: impl Fn(&Allocator) -> usize) -> Amounts {
        Amounts {
            pages: count(&self.pages),
            ring_pages: count(&self.ring_pages),
            state_slots: count(&self.state_slots),
        }
    }

    /// Nothing held, with room for all that a sequence can come to hold: growing allocates nothing.
    pub fn none_held(&self) -> Held {
        Held {
            pages: Vec::with_capacity(self.most.pages),
            ring: Vec::with_capacity(self.most.ring_pages),
            state_slots: Vec::with_capacity(self.most.state_slots),
        }
    }

    /// The first resource of which `needs` asks more than is free.
    pub fn short_of(&self, needs: Amounts) -> Option<Resource> {
        needs.beyond(self.free())
    }

    /// Moves `needs` to `held`; [`Resources::short_of`] has none of them.
    pub fn take(&mut self, needs: Amounts, held: &mut Held) {
        let move_to = |held: &mut Vec<usize>, from: &mut Allocator, count: usize| {
            held.extend((0..count).map_while(|_| from.take()));
        };
        move_to(&mut held.pages, &mut self.pages, needs.pages);
        move_to(&mut held.ring, &mut self.ring_pages, needs.ring_pages);
        move_to(&mut held.state_slots, &mut self.state_slots, needs.state_slots);
    }

    /// Takes back all that a sequence held.
    pub fn give_back(&mut self, held: Held) {
        held.pages.into_iter().for_each(|page| self.pages.give_back(page));
        held.ring.into_iter().for_each(|page| self.ring_pages.give_back(page));
        held.state_slots.into_iter().for_each(|slot| self.state_slots.give_back(slot));
    }
}
