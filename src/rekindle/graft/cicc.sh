#!/bin/sh
file= previous=
for word; do
  [ "$previous" = --module_id_file_name ] && file=$word
  previous=$word
done
if [ -n "$file" ] && [ -n "${MODULE_ID-}" ]; then
  printf %s "$MODULE_ID" >"$file" || exit 1
  count=$#
  while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    [ "$word" = --gen_module_id_file ] || set -- "$@" "$word"
  done
fi
exec REAL "$@"
