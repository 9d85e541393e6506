"""Many wheels from one table, here or on a Dask cluster."""
