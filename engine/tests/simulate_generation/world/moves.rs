//! Moves of rows, and pools that are replaced.

use tlaloc_engine::generation::MoveKind;
use tlaloc_engine::{CallFailure, Nanos, Resource};

use super::World;
use crate::sabotage::Sabotage;
use crate::support::check;

impl World {
    pub(super) fn carry_out(&mut self) -> Result<(), String> {
        let planned = self.reference.moving.clone().ok_or("makes an unknown move")?;
        let moves = self.scheduler.moves();
        let classes = [Resource::Pages, Resource::RingPages, Resource::StateSlots];
        let same = moves.kind == planned.kind
            && classes.iter().enumerate().all(|(class, resource)| {
                let rows = moves.rows(*resource);
                rows.device == planned.device[class] && rows.host == planned.host[class]
            });
        check(same, || format!("moves {moves:?}, not {planned:?}"))?;
        self.note(&planned);
        let rows: usize = planned.device.iter().map(Vec::len).sum();
        let failed = self.random.chance(self.scenario.move_trouble);
        let lost = failed && self.random.chance(30);
        let result = match failed {
            true => Err(CallFailure::Execution { message: "boom".to_owned(), pools_lost: lost }),
            false => Ok(()),
        };
        if !failed {
            let scrub = planned.kind == MoveKind::Scrub;
            // Only a page that is given away again shows it.
            let skipped = scrub && self.fault == Some(Sabotage::NoScrub);
            if planned.kind == MoveKind::In && planned.device[0].len() > 1 {
                let moved = self.faults(Sabotage::OtherPage);
                self.device.apply(&self.scheduler.moves(), &mut self.host);
                if moved {
                    let pages = &planned.device[0];
                    self.device.exchange(pages[0], pages[1]);
                }
            } else if !skipped {
                self.device.apply(&self.scheduler.moves(), &mut self.host);
            }
            if scrub {
                self.saw("scrub");
            }
        }
        if lost {
            self.device.zero();
            self.lost_pools();
        }
        let nanos = self.scenario.move_row * rows as Nanos;
        self.now += nanos;
        self.deliver()?;
        self.reference.moved(nanos, result.clone());
        self.scheduler.moved(result, nanos);
        Ok(())
    }

    pub(super) fn restore(&mut self) -> Result<(), String> {
        let result = if self.random.chance(20) { Err("no memory".to_owned()) } else { Ok(()) };
        self.note(&result);
        if result.is_ok() {
            self.device.zero();
        }
        self.scheduler.restored(result.clone());
        self.reference.restored(result);
        self.compare_events()
    }
}
