//! Which pages and state slots are free.

use std::ops::Range;

/// The free numbers of one pool class, handed out lowest first.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Bit `n % 64` of word `n / 64` is set while `n` is free.
    free: Vec<u64>,
    free_count: usize,
    range: Range<usize>,
    /// No word before this one has a free number.
    first: usize,
}

impl Allocator {
    /// The pages of a pool. Page 0 is the padding page and is never handed out.
    pub fn pages(num_blocks: usize) -> Allocator {
        Allocator::new(1..num_blocks.max(1))
    }

    /// State slots of a pool, or rows of host memory. Number 0 is like any other.
    pub fn numbers(count: usize) -> Allocator {
        Allocator::new(0..count)
    }

    fn new(range: Range<usize>) -> Allocator {
        let mut free = vec![0; range.end.div_ceil(64)];
        for number in range.clone() {
            free[number / 64] |= 1 << (number % 64);
        }
        Allocator { free, free_count: range.len(), range, first: 0 }
    }

    /// Numbers that are free.
    pub fn free(&self) -> usize {
        self.free_count
    }

    /// Numbers that sequences can hold, free or not.
    pub fn total(&self) -> usize {
        self.range.len()
    }

    /// Takes the lowest free number.
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

    /// Gives a taken number back.
    pub fn give_back(&mut self, number: usize) {
        let (word, mask) = (number / 64, 1 << (number % 64));
        debug_assert!(self.range.contains(&number), "{number} is not of this pool");
        debug_assert!(self.free[word] & mask == 0, "{number} is free already");
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
        let mut pages = Allocator::pages(130);
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
            let mut pages = Allocator::pages(num_blocks);
            assert_eq!((pages.take(), pages.free(), pages.total()), (None, 0, 0));
        }
    }

    #[test]
    fn the_first_state_slot_is_handed_out_too() {
        let mut slots = Allocator::numbers(2);
        assert_eq!((slots.free(), slots.total()), (2, 2));
        assert_eq!([slots.take(), slots.take(), slots.take()], [Some(0), Some(1), None]);
        slots.give_back(0);
        assert_eq!((slots.take(), slots.free()), (Some(0), 0));
        assert_eq!(Allocator::numbers(0).take(), None);
    }

    #[test]
    #[should_panic(expected = "free already")]
    fn giving_a_page_back_twice_is_seen() {
        let mut pages = Allocator::pages(4);
        let page = pages.take().unwrap();
        pages.give_back(page);
        pages.give_back(page);
    }
}
