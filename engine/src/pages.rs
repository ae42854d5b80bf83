//! Which KV pages are free.

/// The free pages of one pool class: `1..num_blocks`, handed out lowest number first. Page 0 is the
/// padding page and is never handed out.
#[derive(Debug)]
pub(crate) struct PageAllocator {
    /// Bit `p % 64` of word `p / 64` is set while page `p` is free.
    free: Vec<u64>,
    free_count: usize,
    total: usize,
    /// No word before this one has a free page.
    first: usize,
}

impl PageAllocator {
    pub fn new(num_blocks: usize) -> PageAllocator {
        let mut free = vec![0; num_blocks.div_ceil(64)];
        for page in 1..num_blocks {
            free[page / 64] |= 1 << (page % 64);
        }
        let total = num_blocks.saturating_sub(1);
        PageAllocator { free, free_count: total, total, first: 0 }
    }

    /// Pages that are free.
    pub fn free(&self) -> usize {
        self.free_count
    }

    /// Pages that sequences can hold, free or not.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Takes the free page of the lowest number.
    pub fn take(&mut self) -> Option<usize> {
        let rest = self.free.get(self.first..)?;
        let Some(ahead) = rest.iter().position(|&word| word != 0) else {
            self.first = self.free.len();
            return None;
        };
        self.first += ahead;
        let word = &mut self.free[self.first];
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        self.free_count -= 1;
        Some(self.first * 64 + bit)
    }

    /// Gives a taken page back.
    pub fn give_back(&mut self, page: usize) {
        let (word, mask) = (page / 64, 1 << (page % 64));
        debug_assert!(page != 0 && page <= self.total, "page {page} is not of this pool");
        debug_assert!(self.free[word] & mask == 0, "page {page} is free already");
        self.free[word] |= mask;
        self.free_count += 1;
        self.first = self.first.min(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_out_the_lowest_number_and_never_page_zero() {
        let mut pages = PageAllocator::new(130);
        assert_eq!((pages.free(), pages.total()), (129, 129));
        for expected in 1..130 {
            assert_eq!(pages.take(), Some(expected));
        }
        assert_eq!(pages.take(), None);
        for page in [128, 3, 64] {
            pages.give_back(page);
        }
        assert_eq!(pages.free(), 3);
        assert_eq!([pages.take(), pages.take(), pages.take()], [Some(3), Some(64), Some(128)]);
        assert_eq!(pages.take(), None);
    }

    #[test]
    fn a_pool_of_only_the_padding_page_has_nothing_to_give() {
        for num_blocks in [0, 1] {
            let mut pages = PageAllocator::new(num_blocks);
            assert_eq!((pages.take(), pages.free(), pages.total()), (None, 0, 0));
        }
    }

    #[test]
    #[should_panic(expected = "free already")]
    fn giving_a_page_back_twice_is_seen() {
        let mut pages = PageAllocator::new(4);
        let page = pages.take().unwrap();
        pages.give_back(page);
        pages.give_back(page);
    }
}
