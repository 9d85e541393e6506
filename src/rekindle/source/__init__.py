"""Brings a PyTorch tree into a state that builds: fetch, patch, unpatch, hipify."""
