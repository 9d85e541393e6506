"""Which CUDA, cuDNN, ROCm, oneAPI, compilers and build programs are on this machine, asked in one place."""
