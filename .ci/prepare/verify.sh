#!/usr/bin/env bash
# A real torch for the verification tests: a CPU build, so only where the index has one of moderate size.
set -uo pipefail
where=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle-tests/torch
[ -x "$where/bin/python" ] && "$where/bin/python" -c "import torch, numpy" 2>/dev/null && exit 0
# The pin names the CPU build itself: without its local part a CUDA build of 900 MB and more might answer.
release=torch==2.13.0+cpu
[ "$(uname -m)" = aarch64 ] && release=torch==2.10.0
rm -rf "$where"
mkdir -p "$(dirname "$where")"
python3 -m venv "$where" &&
    timeout 150 "$where/bin/python" -m pip install --quiet --disable-pip-version-check "$release" numpy || {
    # A half-made environment would fail tests that ought to be skipped.
    rm -rf "$where"
    echo "verify: no torch could be installed; its tests are skipped"
}
