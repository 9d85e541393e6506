"""Machines that are not here: qemu-user, its CPU models, a root file system and stand-in libraries for them."""
