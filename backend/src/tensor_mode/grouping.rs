//! Which requests of a batch share an execution (tensor mode §9.1).

use super::buckets::{Bucket, Buckets};

/// A request that can be served, as far as grouping sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its index in the batch.
    pub request: usize,
    /// Class of its shapes.
    pub class: usize,
    /// Its rows.
    pub rows: usize,
}

/// Requests of one execution, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The artifact that runs.
    pub bucket: Bucket,
    /// Its requests.
    pub members: Vec<Member>,
    /// Rows of all of them.
    pub rows: usize,
    class: usize,
}

impl Group {
    /// Whether the request's tensors are the program's as they are.
    pub fn is_direct(&self) -> bool {
        self.members.len() == 1 && self.rows == self.bucket.batch
    }
}

/// Groups a batch; the groups run in this order. With `by_shape` a request joins those of its class
/// wherever they stand, and only its predecessor's group otherwise.
pub fn group(
    members: impl IntoIterator<Item = Member>,
    buckets: &Buckets,
    by_shape: bool,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // For each class the group that may still grow.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut previous = None;
    for member in members {
        let class = member.class;
        let may_join = buckets.batching() && (by_shape || previous == Some(class));
        previous = Some(class);
        let current = open.iter().position(|(of, _)| *of == class);
        let joined = current
            .filter(|_| may_join)
            .and_then(|current| groups.get_mut(open[current].1))
            .is_some_and(|group| group.try_add(member, buckets));
        if joined {
            continue;
        }
        // Every member alone was found a bucket when it was classified.
        let Some(bucket) = buckets.choose(class, member.rows) else { continue };
        let index = groups.len();
        groups.push(Group { bucket, members: vec![member], rows: member.rows, class });
        match current {
            Some(current) => open[current].1 = index,
            None => open.push((class, index)),
        }
    }
    groups
}

impl Group {
    fn try_add(&mut self, member: Member, buckets: &Buckets) -> bool {
        let rows = self.rows + member.rows;
        let Some(bucket) = buckets.choose(self.class, rows) else { return false };
        self.bucket = bucket;
        self.rows = rows;
        self.members.push(member);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::buckets::tests::buckets;
    use super::*;

    /// Groups requests of `(class, rows)`; each group as its requests and the artifact's batch.
    fn grouped(
        requests: &[(usize, usize)],
        buckets: &Buckets,
        by_shape: bool,
    ) -> Vec<(Vec<usize>, usize)> {
        let members = requests.iter().enumerate().map(|(request, &(class, rows))| Member {
            request,
            class,
            rows,
        });
        group(members, buckets, by_shape)
            .iter()
            .map(|group| {
                (group.members.iter().map(|member| member.request).collect(), group.bucket.batch)
            })
            .collect()
    }

    fn ragged() -> Buckets {
        buckets(&[(1, &[4]), (2, &[4]), (4, &[4]), (8, &[4]), (1, &[8]), (8, &[8])])
    }

    #[test]
    fn rows_of_one_shape_share_an_execution() {
        let requests = [(0, 1), (1, 1), (0, 2), (1, 1), (0, 1)];
        assert_eq!(grouped(&requests, &ragged(), true), [(vec![0, 2, 4], 4), (vec![1, 3], 8)]);
    }

    #[test]
    fn only_consecutive_ones_where_asked() {
        let requests = [(0, 1), (0, 1), (1, 1), (0, 1), (0, 2)];
        let expected = [(vec![0, 1], 2), (vec![2], 1), (vec![3, 4], 4)];
        assert_eq!(grouped(&requests, &ragged(), false), expected);
    }

    #[test]
    fn a_full_group_is_followed_by_a_new_one() {
        let requests = [(0, 4), (0, 3), (0, 2), (0, 1), (0, 5)];
        // The open group is the newest of its class: the third request opens one, and the fourth
        // and fifth join it.
        assert_eq!(grouped(&requests, &ragged(), true), [(vec![0, 1], 8), (vec![2, 3, 4], 8)]);
    }

    #[test]
    fn without_batching_each_runs_alone() {
        let buckets = buckets(&[(0, &[4]), (0, &[8])]);
        let groups = grouped(&[(0, 1), (0, 1), (1, 1)], &buckets, true);
        assert_eq!(groups, [(vec![0], 1), (vec![1], 1), (vec![2], 1)]);
    }

    #[test]
    fn a_request_is_direct_where_it_fills_the_batch() {
        let member = |rows| Member { request: 0, class: 0, rows };
        let direct = |rows| group([member(rows)], &ragged(), true)[0].is_direct();
        assert!(direct(1) && direct(2) && direct(8));
        assert!(!direct(3));
    }

    #[test]
    fn every_request_runs_once_whatever_the_order() {
        let buckets = ragged();
        for seed in 0..500_usize {
            let requests: Vec<(usize, usize)> = (0..seed % 23)
                .map(|i| {
                    let mixed = ((seed + 1) * (i + 7) * 2_654_435_761) >> 7;
                    (mixed % 2, 1 + mixed / 2 % 8)
                })
                .collect();
            for by_shape in [true, false] {
                let groups = grouped(&requests, &buckets, by_shape);
                let mut ran: Vec<usize> =
                    groups.iter().flat_map(|(members, _)| members.clone()).collect();
                for (members, batch) in &groups {
                    let rows: usize = members.iter().map(|member| requests[*member].1).sum();
                    assert!(rows <= *batch);
                    let class = requests[members[0]].0;
                    assert!(members.iter().all(|member| requests[*member].0 == class));
                    assert!(members.is_sorted());
                }
                ran.sort_unstable();
                assert_eq!(ran, (0..requests.len()).collect::<Vec<_>>());
            }
        }
    }
}
