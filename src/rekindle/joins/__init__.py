"""The longer joins of stages, one file per verb; ``api`` offers them all."""
