#!/usr/bin/env bash
# A real torch for the verification tests: a CPU build, so only where the index has one of moderate size.
set -uo pipefail
where=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle-tests/torch
[ -x "$where/bin/python" ] && "$where/bin/python" -c "import torch, numpy" 2>/dev/null && exit 0
if [ "$(uname -m)" != aarch64 ]; then
    echo "verify: the index has only CUDA builds of torch for $(uname -m) (900 MB and more); its tests are skipped"
    exit 0
fi
rm -rf "$where"
mkdir -p "$(dirname "$where")"
python3 -m venv "$where" &&
    timeout 150 "$where/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.10.0 numpy || {
    # A half-made environment would fail tests that ought to be skipped.
    rm -rf "$where"
    echo "verify: no torch could be installed; its tests are skipped"
}
