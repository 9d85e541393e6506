#!/usr/bin/env bash
# What the readers of GPU code are held against, all small and nothing installed, below
# ${XDG_CACHE_HOME:-~/.cache}/rekindle-ci: NVIDIA's cuobjdump with a library of NVIDIA's (5 MB, from the index pip is
# set up for) in cuda/, and one of Debian's ROCm libraries for amd64 (8 MB) in rocm/PACKAGE_VERSION/.
# Arguments: other Debian packages, to compare them all (tests/truth/rocm.json names them).
set -u
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle-ci
if [ ! -e "$cache/cuda/nvidia/cu13/bin/cuobjdump" ]; then
    half=$cache/.cuda-half
    rm -rf "$half" "$cache/cuda"
    # shellcheck disable=SC2015
    timeout 60 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
        --target "$half" nvidia-cuda-cuobjdump==13.4.92 nvidia-nvjpeg==13.2.3.58 && mv "$half" "$cache/cuda" ||
        echo "ci: no cuobjdump here; its test is skipped"
fi
command -v apt-get dpkg-deb >/dev/null || { echo "ci: no apt; no ROCm library to read"; exit 0; }
[ $# -gt 0 ] || { ls -d "$cache"/rocm/librocrand1_*/ >/dev/null 2>&1 && exit 0; set -- librocrand1; }
# AMD's libraries exist for amd64 only: lists and state of our own, beside the system's.
state=$cache/apt-amd64
mkdir -p "$state/lists/partial" "$state/archives/partial" "$cache/rocm"
settings=(-o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o Dir::State="$state" -o Dir::State::status=/dev/null
    -o Dir::Cache="$state" -o Acquire::Languages=none -o APT::Sandbox::User=)
timeout 90 apt-get "${settings[@]}" update -qq || echo "ci: apt-get update for amd64 failed"
cd "$state" || exit 1
timeout 90 apt-get "${settings[@]}" download -qq "$@" || { echo "ci: no $* here; its test is skipped"; exit 0; }
for package in *.deb; do
    name=${package%_*}
    half=$cache/rocm/.half
    rm -rf "$half" && dpkg-deb -x "$package" "$half" && rm -rf "$cache/rocm/$name" && mv "$half" "$cache/rocm/$name"
    rm -f "$package"
done
rm -rf "$state"
exit 0
