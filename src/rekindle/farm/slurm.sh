@HEAD@
# Workers of a farm, one on each node, for as long as this job runs. Submit with: sbatch FILE
# The farm's folder must be seen by every node, and be readable by you alone: it holds the farm's keys.
set -u
folder=@FOLDER@
# The Rekindle that wrote this file, which every node must see, too; another one: REKINDLE=/path/to/rekindle sbatch FILE
call=(@PYTHON@ -m rekindle)
[ -z "${REKINDLE-}" ] || call=("$REKINDLE")
# sccache counts the cores it may run on; a cluster that confines nobody would let it take the whole node.
cores=${SLURM_CPUS_PER_TASK:-$(nproc)}
[ "$(nproc)" -le "$cores" ] || call=(taskset -c "0-$((cores - 1))" "${call[@]}")
# Overlays do not lie on network disks: toolchains and compilations go to a disk of the node's own.
scratch=${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/rekindle-farm-${SLURM_JOB_ID:-$$}
worker=
stop() {
    [ -z "$worker" ] || kill -TERM "$worker" 2>/dev/null
}
trap stop TERM INT
"${call[@]}" farm join --farm "$folder" --scratch "$scratch" --wait &
worker=$!
wait "$worker"
wait "$worker"
code=$?
rm -rf "$scratch"
exit "$code"
