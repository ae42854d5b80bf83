//! The handles that callers have: which are alive, which were donated, and which were misused.

use std::collections::{BTreeMap, HashMap};

/// A kind of handle that callers destroy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Client,
    Buffer,
    Event,
    Executable,
    LoadedExecutable,
    Transfer,
}

const KINDS: [Kind; 6] = [
    Kind::Client,
    Kind::Buffer,
    Kind::Event,
    Kind::Executable,
    Kind::LoadedExecutable,
    Kind::Transfer,
];

/// A handle: its kind and its address.
pub(crate) type Handle = (Kind, usize);

/// All handles of a plugin that have not been destroyed.
#[derive(Default)]
pub(crate) struct Handles {
    /// Whether each was donated: then destroying it is all that a caller may do.
    live: HashMap<Handle, bool>,
    misuse: Vec<String>,
}

impl Handles {
    /// A caller got a handle; null is none.
    pub(crate) fn made(&mut self, handle: Handle) {
        if handle.1 != 0 {
            self.live.insert(handle, false);
        }
    }

    /// An execution took a buffer.
    pub(crate) fn donated(&mut self, buffer: usize) {
        self.live.insert((Kind::Buffer, buffer), true);
    }

    /// A caller passes handles to a function, some of them to be destroyed, which the real plugin may
    /// give out again at once.
    ///
    /// # Errors
    /// What is wrong with one of them; it is kept for [`Handles::misuse`], and nothing has changed.
    pub(crate) fn used(
        &mut self,
        function: &str,
        used: &[Handle],
        ended: &[Handle],
    ) -> Result<(), String> {
        let wrong = |handle: &Handle| match self.live.get(handle) {
            None => Some(format!("{function}: the {:?} was never made, or is destroyed", handle.0)),
            Some(true) if !ended.contains(handle) => {
                Some(format!("{function}: the {:?} was donated", handle.0))
            }
            Some(_) => None,
        };
        if let Some(wrong) = used.iter().chain(ended).find_map(wrong) {
            self.misuse.push(wrong.clone());
            return Err(wrong);
        }
        for handle in ended {
            self.live.remove(handle);
        }
        Ok(())
    }

    /// How many of each kind there are.
    pub(crate) fn live(&self) -> BTreeMap<String, usize> {
        let count = |kind| self.live.keys().filter(|handle| handle.0 == kind).count();
        KINDS.into_iter().map(|kind| (format!("{kind:?}"), count(kind))).collect()
    }

    /// What callers did wrong.
    pub(crate) fn misuse(&self) -> &[String] {
        &self.misuse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misuse_is_refused_and_kept() {
        let mut handles = Handles::default();
        let (one, other) = ((Kind::Buffer, 8), (Kind::Buffer, 16));
        handles.made(one);
        handles.made(other);
        handles.made((Kind::Event, 0));
        assert_eq!(handles.used("f", &[one, other], &[]), Ok(()));
        handles.donated(8);
        let donated = "g: the Buffer was donated".to_owned();
        assert_eq!(handles.used("g", &[other, one], &[]), Err(donated.clone()));
        assert_eq!(handles.used("h", &[], &[one]), Ok(()));
        let gone = "h: the Buffer was never made, or is destroyed".to_owned();
        assert_eq!(handles.used("h", &[], &[one]), Err(gone.clone()));
        assert_eq!(handles.misuse(), [donated, gone]);
        assert_eq!(handles.live()["Buffer"], 1);
        assert_eq!(handles.live()["Event"], 0);
    }
}
