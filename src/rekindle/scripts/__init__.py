"""Steps as data into lines to paste and into scripts: sh, cmd, PowerShell, Dockerfile, workflow, Slurm and more."""
