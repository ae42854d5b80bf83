//! What sequences hold of an instance. A further resource is a further field of each type here.

use crate::Geometry;
use crate::pages::PageAllocator;

/// What one sequence holds.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Its KV pages, in the order of its positions.
    pub pages: Vec<usize>,
}

/// What a request takes before its first call (sequence mode §10).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub pages: usize,
}

impl Needs {
    /// What a sequence that holds `held` lacks to have `length` positions.
    pub fn to_reach(length: usize, held: &Held, geometry: &Geometry) -> Needs {
        Needs { pages: geometry.blocks_for(length).saturating_sub(held.pages.len()) }
    }
}

/// A resource of which too little is free. The first that is short names the refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    Pages,
}

/// What an instance can hand out.
#[derive(Debug)]
pub(crate) struct Resources {
    pub pages: PageAllocator,
    max_pages: usize,
}

impl Resources {
    pub fn new(geometry: &Geometry) -> Resources {
        let pages = PageAllocator::new(geometry.num_blocks());
        let max_pages = geometry.blocks_for(geometry.max_context()).min(pages.total());
        Resources { pages, max_pages }
    }

    /// Nothing held, with room for all that a sequence can come to hold: growing allocates nothing.
    pub fn none_held(&self) -> Held {
        Held { pages: Vec::with_capacity(self.max_pages) }
    }

    /// The first resource of which `needs` asks more than is free.
    pub fn short_of(&self, needs: Needs) -> Option<Shortage> {
        (needs.pages > self.pages.free()).then_some(Shortage::Pages)
    }

    /// Moves `needs` to `held`; [`Resources::short_of`] has none of them.
    pub fn take(&mut self, needs: Needs, held: &mut Held) {
        held.pages.extend((0..needs.pages).map_while(|_| self.pages.take()));
    }

    /// Takes back all that a sequence held.
    pub fn give_back(&mut self, held: Held) {
        for page in held.pages {
            self.pages.give_back(page);
        }
    }
}
