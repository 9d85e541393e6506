#!/bin/sh
# Wine for x64 programs on aarch64: Debian 13's box64 with wine64:amd64 in a root of its own (194 packages, 188 MB), which
# debootstrap makes under FOLDER. FOLDER/wine then runs a Windows program; where it cannot, FOLDER/why says why not.
# Usage: sh tools/box64_wine.sh FOLDER
set -u
folder=$1
root=$folder/root
mkdir -p "$folder" || exit 1
refuse() {
    rm -f "$folder/wine"
    printf '%s\n' "$*" >"$folder/why"
    echo "ci: no wine here: $*"
    exit 0
}
[ "$(uname -m)" = aarch64 ] || refuse "box64 is for aarch64, and this is $(uname -m)"
[ "$(id -u)" = 0 ] || refuse "making a root needs root"
for tool in debootstrap chroot unshare mount; do
    command -v "$tool" >/dev/null || refuse "needs $tool"
done
if [ ! -e "$root/ready" ]; then
    rm -rf "$root"
    timeout 600 debootstrap --variant=minbase trixie "$root" >"$folder/log" 2>&1 || refuse "debootstrap failed, see $folder/log"
    cp /etc/resolv.conf "$root/etc/" 2>/dev/null
    timeout 900 chroot "$root" sh -c 'export DEBIAN_FRONTEND=noninteractive
        dpkg --add-architecture amd64 && apt-get update -qq &&
        apt-get install -y -qq --no-install-recommends box64 wine64:amd64 libz-mingw-w64' >>"$folder/log" 2>&1 ||
        refuse "Debian 13's box64 and wine64:amd64 cannot be installed, see $folder/log"
    : >"$root/ready"
fi
# Wine starts its server by a shell script, which a kernel that knows no x86-64 programs cannot: box64 must.
printf '#!/bin/sh\nexec box64 /usr/lib/wine/wineserver64 -p0 "$@"\n' >"$root/usr/lib/wine/wineserver"
# The program sees this machine's files where they are; the mounts vanish with their namespace. Its own emulated liblzma
# and gnutls (with what that needs), because box64's wrappers of them lack what wine calls; zlib1.dll, because Debian keeps it elsewhere.
cat >"$folder/wine" <<'END'
#!/bin/sh
here=$(CDPATH='' cd -- "$(dirname "$0")" && pwd -P)
root=$here/root
export BOX64_LOG=0 BOX64_EMULATED_LIBS=liblzma.so.5:libgnutls.so.30:libp11-kit.so.0:libnettle.so.8:libhogweed.so.6:libgmp.so.10 WINE64="$root" AT="$PWD"
exec unshare --mount sh -c '
    for place in /tmp /proc /sys /dev "$HOME" "$AT" ${WINEPREFIX:+"$(dirname "$WINEPREFIX")"}; do
        mkdir -p "$WINE64$place" && mount --rbind "$place" "$WINE64$place" || exit 125
    done
    dlls=${WINEPREFIX:-$HOME/.wine}/drive_c/windows/system32
    exec chroot "$WINE64" sh -c "cd \"\$AT\" && if [ -d \"\$0\" ] && [ ! -e \"\$0/zlib1.dll\" ]; then
        cp /usr/x86_64-w64-mingw32/lib/zlib1.dll \"\$0/\"; fi; exec box64 /usr/lib/wine/wine64 \"\$@\"" "$dlls" "$@"
' wine "$@"
END
chmod 755 "$folder/wine"
said=$(WINEPREFIX="$folder/trial" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" timeout 300 "$folder/wine" cmd /c ver 2>>"$folder/log")
case $said in
*Windows*) rm -f "$folder/why" ;;
*) refuse "wine does not start by box64 (it said: $(printf %s "$said" | tr -d '\r\n' | cut -c1-80)), see $folder/log" ;;
esac
rm -rf "$folder/trial"
exit 0
