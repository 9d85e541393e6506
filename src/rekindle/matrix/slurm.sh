@HEAD@
# Submit with: sbatch FILE. The directory below must be seen by every node.
# 'rekindle matrix status' tells what became of the cells; submitting again continues.
set -u
root=@ROOT@
trees=(
@TREES@
)
# TERM reaches the build, which stops in order; Slurm's requeue starts it again.
stop() { kill -TERM "$running" 2>/dev/null; wait "$running"; exit 3; }
trap stop TERM
failed=0
for cell in ${trees[$SLURM_ARRAY_TASK_ID]}; do
    rekindle matrix cell "$cell" --root "$root" --trust --jobs "$SLURM_CPUS_PER_TASK" &
    running=$!
    wait "$running" || failed=1
done
exit "$failed"
