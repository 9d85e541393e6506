#!/usr/bin/env bash
# A Windows Python with our dependencies (some 120 MB unpacked) for the tests that run Rekindle under wine. It lies in
# ${XDG_CACHE_HOME:-~/.cache}/rekindle-ci/windows; nothing is installed. Where wine cannot run x64 programs the tests
# are skipped and say why.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle-ci
wine=wine
prefix=$cache/wine
if [ "$(uname -m)" != x86_64 ]; then
    [ -n "${REKINDLE_LONG-}" ] || { echo "ci: Windows Python by box64 takes minutes: only with REKINDLE_LONG=1"; exit 0; }
    sh "$here/tools/box64_wine.sh" "$cache/box64"
    wine=$cache/box64/wine
    prefix=$cache/box64/prefix
fi
command -v "$wine" >/dev/null || { echo "ci: no wine; Rekindle is not run under Windows Python"; exit 0; }
# Wine calls itself Windows 7 unless told; Python wants more. It also marks files whose names begin with a dot as hidden,
# which Windows does not, and keeps the mark when they are renamed: Python then leaves out such a .pth file.
for setting in Version:win10 ShowDotFiles:Y; do
    WINEPREFIX="$prefix" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" timeout 120 \
        "$wine" reg add 'HKCU\Software\Wine' /v "${setting%:*}" /d "${setting#*:}" /f >/dev/null 2>&1 </dev/null ||
        echo "ci: wine does not start"
done
cat "$here/pyproject.toml" "$here/tools/windows_python.py" | cmp -s - "$cache/windows/ready" && exit 0
mkdir -p "$cache"
. "$here/tools/launch.sh"
ready dev || set_up --dev
# shellcheck disable=SC2015
timeout 150 "$here/.venv/bin/python" "$here/tools/windows_python.py" "$cache/windows" &&
    cat "$here/pyproject.toml" "$here/tools/windows_python.py" >"$cache/windows/ready" ||
    echo "ci: no Windows Python here; its tests are skipped"
exit 0
