"""Puts the runtime libraries into a wheel so that it runs alone."""
