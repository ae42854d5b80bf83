//! Blocks at the leading corner of larger arrays, of elements of four bytes, row-major.

use std::ops::Range;

/// Bytes of an element: f32 and i32.
pub const WIDTH: usize = 4;

/// Fills `array`, of dims `outer`, with `padding`, and writes the block, of dims `inner`, over its
/// leading corner.
pub fn pad(block: &[u8], inner: &[usize], array: &mut [u8], outer: &[usize], padding: [u8; WIDTH]) {
    for element in array.as_chunks_mut::<WIDTH>().0 {
        *element = padding;
    }
    for (from, to) in runs(inner, outer) {
        if let (Some(from), Some(to)) = (block.get(from), array.get_mut(to)) {
            to.copy_from_slice(from);
        }
    }
}

/// Copies the leading corner of `array`, of dims `outer`, to the block, of dims `inner`.
pub fn crop(array: &[u8], outer: &[usize], block: &mut [u8], inner: &[usize]) {
    for (to, from) in runs(inner, outer) {
        if let (Some(to), Some(from)) = (block.get_mut(to), array.get(from)) {
            to.copy_from_slice(from);
        }
    }
}

/// The bytes of the block that follow each other in the array, too: where they are in the block, and
/// where in the array.
fn runs(inner: &[usize], outer: &[usize]) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    // From the innermost axis that the two differ in, all is in one piece.
    let split = inner.iter().zip(outer).rposition(|(inner, outer)| inner != outer).unwrap_or(0);
    let (leading, trailing) = inner.split_at(split);
    let (outer_leading, outer_trailing) = outer.split_at(split);
    let length = WIDTH * trailing.iter().product::<usize>();
    let stride = WIDTH * outer_trailing.iter().product::<usize>();
    (0..leading.iter().product()).map(move |run| {
        let (mut rest, mut place, mut size) = (run, 0, 1);
        for (inner, outer) in leading.iter().zip(outer_leading).rev() {
            place += rest % inner * size;
            rest /= inner;
            size *= outer;
        }
        (run * length..(run + 1) * length, place * stride..place * stride + length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The array as nested indexing fills it.
    fn expected(inner: &[usize], outer: &[usize]) -> Vec<i32> {
        let mut next = 0;
        let size = outer.iter().product();
        let mut array = vec![-7; size];
        for (place, element) in array.iter_mut().enumerate() {
            let mut rest = place;
            let mut inside = true;
            for (inner, outer) in inner.iter().zip(outer).rev() {
                inside &= rest % outer < *inner;
                rest /= outer;
            }
            if inside {
                *element = next;
                next += 1;
            }
        }
        array
    }

    fn bytes(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    #[test]
    fn blocks_go_in_and_come_out() {
        let cases: [(&[usize], &[usize]); 9] = [
            (&[], &[]),
            (&[3], &[4]),
            (&[4], &[4]),
            (&[3, 2], &[4, 2]),
            (&[4, 2], &[4, 5]),
            (&[1, 2, 3], &[2, 4, 3]),
            (&[2, 1, 3, 2], &[2, 4, 3, 2]),
            (&[2, 3, 2, 1], &[3, 3, 4, 2]),
            (&[1, 1, 1], &[2, 2, 2]),
        ];
        for (inner, outer) in cases {
            let count = inner.iter().product::<usize>();
            let block = bytes(&(0..count as i32).collect::<Vec<_>>());
            let mut array = vec![9; WIDTH * outer.iter().product::<usize>()];
            pad(&block, inner, &mut array, outer, (-7_i32).to_ne_bytes());
            assert_eq!(array, bytes(&expected(inner, outer)), "{inner:?} in {outer:?}");
            let mut back = vec![9; block.len()];
            crop(&array, outer, &mut back, inner);
            assert_eq!(back, block, "{inner:?} of {outer:?}");
        }
    }
}
