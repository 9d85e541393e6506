@HEAD@
# Submit with: sbatch FILE. The directory below must be seen by every node.
# 'rekindle matrix status' tells what became of the cells; submitting again continues.
set -u
root=@ROOT@
trees=(
@TREES@
)
# The Rekindle that wrote this file, which every node must see, too; another one: REKINDLE=/path/to/rekindle sbatch FILE
call=(@PYTHON@ -m rekindle)
[ -z "${REKINDLE-}" ] || call=("$REKINDLE")
# Before the time limit TERM reaches the build, which stops in order; then the task asks to be queued again: Slurm does
# that by itself after a preemption or a lost node, not at the limit.
stop() {
    for build in $(jobs -p); do kill -TERM "$build" 2>/dev/null; done
    wait
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}" || echo "not queued again: submit the same file"
    exit 3
}
trap stop TERM
failed=0
for cell in ${trees[$SLURM_ARRAY_TASK_ID]}; do
    "${call[@]}" matrix cell "$cell" --root "$root" --trust --jobs "$SLURM_CPUS_PER_TASK" &
    wait "$!" || failed=1
done
exit "$failed"
