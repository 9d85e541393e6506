"""A wheelhouse that pip and uv read, with the evidence for each wheel, and the page for people."""
