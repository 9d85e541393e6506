"""Spark, the miniature tree that the demo builds; the tree itself lies in tree/."""
