"""Bytes to structs: ELF, PE, fat binaries, wheels, Ninja logs, CMake caches."""
