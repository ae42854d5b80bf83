#!/usr/bin/env bash
# Write the release: one tarball that works on a machine with only a
# tritonserver and a PJRT plugin.
#
#   scripts/package.sh [--out DIR]      DIR/tlaloc-triton-VERSION-linux-x86_64.tar.gz
#                                       (default: target/package)
#
# It holds the backend, config-gen, tlaloc-export, serve.sh, the licences of
# all that is linked in, and SHA256SUMS over its files. Equal binaries give
# equal bytes. Prints the tarball's path.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

out=$TARGET/package
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --out) out=$(option_value "$@") ;;
    *) die "unknown argument '$1'; see --help" ;;
  esac
  shift 2
done

packages=(triton-tlaloc config-gen tlaloc-export)
cd "$ROOT"
say "release build"
build_release

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=tlaloc-triton-$version-linux-$(uname -m)
mkdir -p "$out"
staging=$(mktemp -d "$out/.partial.XXXXXX")
trap 'rm -rf "$staging"' EXIT
tree=$staging/$name

say "gathering $name"
install -D -m 755 "$TARGET/release/libtriton_tlaloc.so" "$tree/backends/tlaloc/libtriton_tlaloc.so"
install -D -m 755 -t "$tree/bin" "$TARGET/release/config-gen" "$TARGET/release/tlaloc-export"
install -D -m 755 -t "$tree/scripts" scripts/serve.sh
install -D -m 644 -t "$tree/scripts" scripts/lib.sh
install -D -m 644 -t "$tree" LICENSE
install -D -m 644 scripts/package/README.md "$tree/README.md"
python3 scripts/package/licences.py "$tree/licences" "${packages[@]}"
(cd "$tree" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum) >"$staging/sums"
install -m 644 "$staging/sums" "$tree/SHA256SUMS"

tar --create --directory "$staging" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner "$name" |
  gzip --no-name >"$staging/$name.tar.gz"
mv "$staging/$name.tar.gz" "$out/"
printf '%s\n' "$out/$name.tar.gz"
