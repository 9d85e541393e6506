#!/bin/sh
# Written by rekindle. Compiles on the farm; what fails there, for whatever reason, is compiled here, so that only what
# this machine's compiler refuses is an error. One object in so many is compiled here as well and compared; what this
# machine made is kept. REKINDLE_FARM_BUILD is a folder of the build that runs: without it, or with "stop" in it, the farm
# is left alone.
farm=$REKINDLE_FARM_BUILD
if [ -z "$farm" ] || [ -e "$farm/stop" ]; then exec "$@"; fi

out= next=
for word; do
  [ -n "$next" ] && out=$word
  next=
  case $word in -o) next=1 ;; esac
done
# Giants that no worker has the memory for.
if [ -e "$farm/home" ] && grep -Fqx -e "$out" "$farm/home"; then exec "$@"; fi

said=$farm/said.$$
@SCCACHE@ "$@" 2>"$said"
code=$?
if [ $code -ne 0 ]; then
  # A compilation that fails is only believed where it fails here.
  printf '%s\t%s\n' "$out" "$(grep -m 1 -e sccache -e rror "$said" | tr '\t' ' ' | cut -c 1-300)" >>"$farm/failed"
  rm -f "$said"
  exec "$@"
fi
cat "$said" >&2
rm -f "$said"

every=@EVERY@
case $out in *.o) ;; *) exit 0 ;; esac
[ "$every" -gt 0 ] || exit 0
sum=$(printf '%s %s' "$farm" "$out" | cksum)
[ $((${sum%% *} % every)) -eq 0 ] || exit 0

# The code alone counts: the farm compiles preprocessed text, so what is told to a debugger may differ.
same() {
  cmp -s "$1" "$2" && return 0
  objcopy --strip-debug "$1" "$1.code" 2>/dev/null && objcopy --strip-debug "$2" "$2.code" 2>/dev/null &&
    cmp -s "$1.code" "$2.code"
}

mv "$out" "$out.farm"
if ! "$@" 2>/dev/null; then
  mv -f "$out.farm" "$out"
  exit 0
fi
if same "$out" "$out.farm"; then
  verdict=checked
else
  mv "$out" "$out.here"
  "$@" 2>/dev/null || exit $?
  # A compiler that does not make the same twice proves nothing.
  if same "$out" "$out.here"; then verdict=wrong; else verdict=unsteady; fi
fi
rm -f "$out.farm" "$out.farm.code" "$out.here" "$out.here.code" "$out.code"
printf '%s\n' "$out" >>"$farm/$verdict"
[ "$verdict" = wrong ] && : >"$farm/stop"
exit 0
