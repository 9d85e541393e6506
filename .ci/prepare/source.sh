#!/usr/bin/env bash
# Two real PyTorch trees (Debian's original tarballs) for the tests of source and build, through our own fetch.
# They lie in ${XDG_CACHE_HOME:-~/.cache}/rekindle-ci/pytorch-VERSION; tests copy before they change anything.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle-ci
mkdir -p "$cache"
. "$here/tools/launch.sh"
ready dev || set_up --dev
for version in 1.13.1 2.6.0; do
    [ -d "$cache/pytorch-$version/.rekindle" ] && continue
    timeout 150 "$here/.venv/bin/rekindle" source fetch --quiet --release "$version" --from debian \
        --source "$cache/pytorch-$version" --workspace "$cache/fetch" >/dev/null ||
        echo "ci: no PyTorch $version here; its tests will be skipped"
done
exit 0
