"""Ready or not: one register of checks for the doctor and for the build, each question with one answer."""
