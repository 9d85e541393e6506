#!/usr/bin/env bash
# One small real ROCm library (Debian's librocrand1 for amd64, 8 MB) to hold the reader of AMD code against.
# It lies in ${XDG_CACHE_HOME:-~/.cache}/rekindle-ci/rocm/PACKAGE_VERSION/; nothing is installed.
# Arguments: other packages, to compare them all (tests/truth/rocm.json names them).
set -u
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle-ci
command -v apt-get dpkg-deb >/dev/null || { echo "ci: no apt; no ROCm library to read"; exit 0; }
[ $# -gt 0 ] || { ls -d "$cache"/rocm/librocrand1_*/ >/dev/null 2>&1 && exit 0; set -- librocrand1; }
# AMD's libraries exist for amd64 only: lists and state of our own, beside the system's.
state=$cache/apt-amd64
mkdir -p "$state/lists/partial" "$state/archives/partial" "$cache/rocm"
settings=(-o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o Dir::State="$state" -o Dir::State::status=/dev/null
    -o Dir::Cache="$state" -o Acquire::Languages=none -o APT::Sandbox::User=)
timeout 60 apt-get "${settings[@]}" update -qq || echo "ci: apt-get update for amd64 failed"
cd "$state" || exit 1
timeout 60 apt-get "${settings[@]}" download -qq "$@" || { echo "ci: no $* here; its test is skipped"; exit 0; }
for package in *.deb; do
    name=${package%_*}
    half=$cache/rocm/.half
    rm -rf "$half" && dpkg-deb -x "$package" "$half" && rm -rf "$cache/rocm/$name" && mv "$half" "$cache/rocm/$name"
    rm -f "$package"
done
rm -rf "$state"
exit 0
