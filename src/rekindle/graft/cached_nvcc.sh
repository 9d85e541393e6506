#!/bin/sh
# STAMP
for word; do
  shift
  [ "$word" = -c ] && word=--cubin
  set -- "$@" "$word"
done
exec REAL "$@"
