"""A plan as a script for machines on which Rekindle does not run."""
