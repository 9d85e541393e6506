#!/bin/sh
# Written by rekindle. Compiles on the farm; what fails there, for whatever reason, is compiled here, so that only what
# this machine's compiler refuses is an error. One object in so many is compiled here as well and compared; what this
# machine made is kept. REKINDLE_FARM_BUILD is a folder of the build that runs: without it, or with "stop" in it, the farm
# is left alone.
farm=$REKINDLE_FARM_BUILD
if [ -z "$farm" ] || [ -e "$farm/stop" ]; then exec "$@"; fi

out= next= places= debug=
for word; do
  [ -n "$next" ] && out=$word
  next=
  case $word in
    -o) next=1 ;;
    -g*) debug=1 ;;
    -ffile-prefix-map=*) word=${word#*=} places="$places${places:+
}${word%=*}" ;;
  esac
done
# Giants that no worker has the memory for.
if [ -e "$farm/home" ] && grep -Fqx -e "$out" "$farm/home"; then exec "$@"; fi

# sccache takes the place that -ffile-prefix-map hides for a part of what is compiled, so nobody who builds elsewhere would
# find it in a cache. Told to the preprocessor alone it is none, and does the same; not where a debugger is told of places.
[ -z "$debug" ] || places=
send() {
  count=${places:+$#}
  while [ "${count:-0}" -gt 0 ]; do
    word=$1 count=$((count - 1))
    shift
    case $word in
      -ffile-prefix-map=*) set -- "$@" -Xpreprocessor "-fmacro-prefix-map=${word#*=}" ;;
      *) set -- "$@" "$word" ;;
    esac
  done
  @SCCACHE@ "$@"
}

said=$farm/said.$$
send "$@" 2>"$said"
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
# What the preprocessor could not hide (__builtin_FILE) is hidden by the compiler itself.
if [ -n "$places" ] && grep -Fq -e "$places" "$out"; then exec "$@"; fi
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
