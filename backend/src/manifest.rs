//! Where a model's manifest is.

use std::path::{Component, Path, PathBuf};

/// A manifest, which has to be inside the version directory; none where it is not.
pub fn path(directory: &Path, relative: &str) -> Option<PathBuf> {
    let inside = !relative.is_empty()
        && Path::new(relative)
            .components()
            .all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    inside.then(|| directory.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_stays_inside_the_version_directory() {
        let directory = Path::new("/models/m/1");
        let path = |relative| path(directory, relative);
        assert_eq!(path("tlaloc-serving.json"), Some("/models/m/1/tlaloc-serving.json".into()));
        assert_eq!(path("sub/m.json"), Some("/models/m/1/sub/m.json".into()));
        for outside in ["../1/tlaloc-serving.json", "/etc/passwd", "", "a/../../b"] {
            assert_eq!(path(outside), None, "{outside}");
        }
    }
}
