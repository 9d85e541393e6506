
cd "$1" && mkdir low up work top && mount -t overlay -o lowerdir=low,upperdir=up,workdir=work overlay top &&
: > top/file && exec bwrap --die-with-parent --cap-drop ALL --unshare-user --unshare-cgroup --unshare-ipc \
    --unshare-pid --unshare-net --unshare-uts --ro-bind / / --bind top "$1/top" --proc /proc --dev /dev -- true
