"""Where CUDA toolkits lie on Linux: NVIDIA's own, Arch's, Debian's."""

CUDA_PLACES = ("/usr/local/cuda*", "/opt/cuda*", "/usr/lib/cuda*", "/usr/lib/nvidia-cuda-toolkit")
