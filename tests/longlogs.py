"""Makes realistic long logs around a sample: what real builds and runs print before and after the root error.

Nothing here is random but by its seed. The noise is full of red herrings on purpose: failed try-compiles, warnings that
speak of errors, files called error.cpp, handled exceptions, things that were mended on the way, consequences.
"""

from __future__ import annotations

import random
from collections.abc import Callable

_FILES = (
    "Activation AdaptiveAveragePooling BinaryOps Blas Col2Im Convolution Copy Cross Distance Dropout Embedding Fill "
    "GridSampler Histogram Indexing Lerp Linear Loss LossCTC MaxPooling Normalization PixelShuffle Pow Quantized RNN "
    "ReduceOps Repeat Scalar SoftMax Sorting SpectralOps Unique UpSample error Exception FailedTest WeightNorm"
).split()

_CONFIGURE = """\
-- The CXX compiler identification is GNU 11.4.0
-- The C compiler identification is GNU 11.4.0
-- Detecting CXX compiler ABI info - done
-- Check for working CXX compiler: /usr/bin/c++ - skipped
-- Performing Test HAVE_ERROR_STRERROR_R
-- Performing Test HAVE_ERROR_STRERROR_R - Failed
-- Performing Test C_HAS_AVX_1 - Failed
-- Performing Test C_HAS_AVX512_2 - Failed
-- Performing Test CXX_HAS_AVX2_2 - Success
-- Performing Test SUPPORT_GLIBCXX_USE_C99 - Success
-- Looking for pthread_create in pthreads - not found
-- Looking for sys/epoll.h - found
-- Looking for cuda_runtime.h - not found (optional)
-- Could NOT find NUMA (missing: Numa_INCLUDE_DIR Numa_LIBRARIES)
-- Could NOT find OpenBLAS (missing: OpenBLAS_LIB OpenBLAS_INCLUDE_DIR)
-- Could NOT find CUB (missing: CUB_INCLUDE_DIR)
-- MKL could not be found. Defaulting to Eigen
-- Failed to find LLVM FileCheck
-- git version: v1.6.1 normalized to 1.6.1
fatal: No names found, cannot describe anything.
CMake Warning at cmake/Dependencies.cmake:160 (message):
  MKL could not be found. Defaulting to Eigen
CMake Deprecation Warning at third_party/FP16/CMakeLists.txt:1 (CMAKE_MINIMUM_REQUIRED):
  Compatibility with CMake < 3.5 will be removed from a future version of
  CMake.

  Update the VERSION argument <min> value or use a ...<max> suffix to tell
  CMake that the project does not need compatibility with older versions.

CMake Warning (dev) at third_party/gloo/CMakeLists.txt:21 (option):
  Policy CMP0077 is not set: option() honors normal variables.  Run "cmake
  --help-policy CMP0077" for policy details.
This warning is for project developers.  Use -Wno-dev to suppress it.

-- Found CMake: /usr/bin/cmake (found version "3.27.9")
-- Brace yourself, we are building NNPACK
-- Not compiling with NCCL support.  Suppress this warning with -DUSE_NCCL=OFF
"""

_PROBES = (
    """\
Performing C++ SOURCE FILE Test CAFFE2_COMPILER_SUPPORTS_AVX512_EXTENSIONS failed with the following output:
Change Dir: /opt/src/pt/build/CMakeFiles/CMakeTmp
Building CXX object CMakeFiles/cmTC_4c1f2.dir/src.cxx.o
/usr/lib/gcc/x86_64-linux-gnu/11/include/avx512fintrin.h:65:1: error: inlining failed in call to 'always_inline' '_mm512_set_epi64': target specific option mismatch
/opt/src/pt/build/CMakeFiles/CMakeTmp/src.cxx:9:23: error: called from here
""",
    """\
-- Performing Test COMPILER_SUPPORTS_HIDDEN_VISIBILITY
/opt/src/pt/build/CMakeFiles/CMakeScratch/TryCompile-Zq81xa/src.c:4:10: fatal error: omp.h: No such file or directory
    4 | #include <omp.h>
compilation terminated.
-- Performing Test COMPILER_SUPPORTS_HIDDEN_VISIBILITY - Failed
""",
    """\
Determining if the pthread_create exist failed with the following output:
/usr/bin/ld: CMakeFiles/cmTC_91bd0.dir/CheckSymbolExists.c.o: in function `main':
CheckSymbolExists.c:(.text+0x1b): undefined reference to `pthread_create'
collect2: error: ld returned 1 exit status
""",
)

_SUMMARY = """\
-- ******** Summary ********
-- General:
--   CMake version         : 3.27.9
--   C++ compiler version  : 11.4.0
--   CXX flags             : -fvisibility-inlines-hidden -O2 -fPIC -Wall -Werror=return-type -Wno-error=deprecated
--   BUILD_SHARED_LIBS     : ON
--   USE_CUDA              : {cuda}
--   USE_NCCL              : OFF
-- Configuring done (14.2s)
-- Generating done (1.1s)
-- Build files have been written to: /opt/src/pt/build
"""

_WARNINGS = (
    "/opt/src/pt/aten/src/ATen/native/Histogram.cpp:31:11: warning: unused variable ‘max_bins’ [-Wunused-variable]",
    "/opt/src/pt/third_party/fbgemm/src/Utils.cc:88:20: warning: ‘tail’ may be used uninitialized [-Wmaybe-uninitialized]",
    "/usr/include/c++/11/bits/stl_algobase.h:431:30: warning: ‘void* __builtin_memcpy’ writing 8 bytes [-Wstringop-overflow=]",
    "nvcc warning : The 'compute_35', 'compute_37', 'sm_35' and 'sm_37' architectures are deprecated, and may be removed in a future release (Use -Wno-deprecated-gpu-targets to suppress warning).",
    "ptxas warning : Stack size for entry function '_ZN2at6native4errorE' cannot be statically determined",
    "ptxas info    : (C7508) Potential Performance Loss: wgmma.mma_async instructions are serialized",
    '/opt/src/pt/aten/src/ATen/native/cuda/UpSample.cuh(161): warning #550-D: parameter "align_corners" was set but never used',
    "d:\\src\\pt\\caffe2\\core\\tensor.h(412): warning C4244: 'argument': conversion from '__int64' to 'int', possible loss of data",
    "/opt/src/pt/c10/util/Half.h:21:3: note: the ABI for passing parameters with 32-byte alignment has changed in GCC 4.6",
    "nvlink warning : SM Arch ('sm_61') not found in 'nccl/obj/collectives/device/functions.o'",
)

_PIP = """\
Looking in indexes: https://pypi.org/simple, https://download.pytorch.org/whl/cu121
Collecting numpy
  Downloading numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl (18.2 MB)
Collecting transformers==4.38.2
  Using cached transformers-4.38.2-py3-none-any.whl (8.5 MB)
WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'ReadTimeoutError("Read timed out. (read timeout=15)")': /simple/accelerate/
Collecting accelerate
  Downloading accelerate-0.27.2-py3-none-any.whl (279 kB)
Building wheels for collected packages: pycocotools
  Building wheel for pycocotools (pyproject.toml): started
  running build_ext
  gcc -Wno-unused-result -DNDEBUG -O2 -Wall -fPIC -c pycocotools/_mask.c -o build/temp/_mask.o
  warning: #warning "Using deprecated NumPy API, disable it with #define NPY_NO_DEPRECATED_API" [-Wcpp]
  Building wheel for pycocotools (pyproject.toml): finished with status 'done'
Successfully built pycocotools
Installing collected packages: numpy, accelerate, transformers, pycocotools
  WARNING: The script f2py is installed in '/opt/app/bin' which is not on PATH.
ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This behaviour is the source of the following dependency conflicts.
fairseq 0.12.2 requires omegaconf<2.1, but you have omegaconf 2.3.0 which is incompatible.
Successfully installed accelerate-0.27.2 numpy-1.26.4 pycocotools-2.0.7 transformers-4.38.2
[notice] A new release of pip is available: 23.2.1 -> 24.0
"""

_RUN = """\
2024-02-11 10:02:41 | INFO | app | reading config.toml
2024-02-11 10:02:41 | WARNING | app | error_threshold not set, using 0.05
2024-02-11 10:02:42.113: W tensorflow/stream_executor/platform/default/dso_loader.cc:60] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory
2024-02-11 10:02:42.113: I tensorflow/stream_executor/cuda/cudart_stub.cc:29] Ignore above cudart dlerror if you do not have a GPU set up on your machine.
A matching Triton is not available, some optimizations will not be enabled
Traceback (most recent call last):
  File "/opt/app/lib/python3.11/site-packages/xformers/__init__.py", line 55, in _is_triton_available
    from xformers.triton.softmax import softmax as triton_softmax
ModuleNotFoundError: No module named 'triton'
INFO: Could not load library with AVX2 support due to: ModuleNotFoundError("No module named 'faiss.swigfaiss_avx2'")
INFO: Successfully loaded faiss.
/opt/app/lib/python3.11/site-packages/transformers/utils/generic.py:260: UserWarning: torch.utils._pytree._register_pytree_node is deprecated.
  torch.utils._pytree._register_pytree_node(
[W NNPACK.cpp:80] Could not initialize NNPACK! Reason: Unsupported hardware.
Traceback (most recent call last):
  File "/opt/app/plugins.py", line 214, in load
    spec.loader.exec_module(module)
ModuleNotFoundError: No module named 'insightface'
[plugins] faceswap: import failed, plugin disabled
config: /opt/app/paths.toml: [Errno 2] No such file or directory, defaults used
100%|##########| 6.62G/6.62G [09:48<00:00, 12.1MB/s]
"""

_BUILD_END = """\
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "setup.py", line 944, in <module>
    build_deps()
  File "/opt/src/pt/tools/setup_helpers/cmake.py", line 140, in run
    check_call(command, cwd=self.build_dir, env=env)
subprocess.CalledProcessError: Command '['cmake', '--build', '.', '--target', 'install', '--config', 'Release']' returned non-zero exit status 1.
  error: subprocess-exited-with-error

  × python setup.py bdist_wheel did not run successfully.
  │ exit code: 1
  ╰─> See above for output.

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for torch
ERROR: Could not build wheels for torch, which is required to install pyproject.toml-based projects
"""

_RUN_END = """\
Exception ignored in atexit callback: <function cleanup at 0x7f1c2a0be290>
Traceback (most recent call last):
  File "/opt/app/worker.py", line 61, in __del__
    self.index.flush()
AttributeError: 'NoneType' object has no attribute 'flush'
app.service: Main process exited, code=exited, status=1/FAILURE
app.service: Failed with result 'exit-code'.
"""


def progress(rng: random.Random, count: int) -> list[str]:
    """Ninja or make lines with a warning now and then."""
    total = rng.randint(count + 50, 7000)
    ninja = rng.random() < 0.6
    lines = []
    for number in range(1, count + 1):
        name = rng.choice(_FILES)
        cuda = rng.random() < 0.3
        where = f"caffe2/CMakeFiles/torch_{'cuda' if cuda else 'cpu'}.dir/__/aten/src/ATen/native/{name}"
        step = f"[{number}/{total}]" if ninja else f"[{100 * number // total:3d}%]"
        lines.append(f"{step} Building {'CUDA' if cuda else 'CXX'} object {where}.{'cu' if cuda else 'cpp'}.o")
        if rng.random() < 0.04:
            lines.append(rng.choice(_WARNINGS))
    return lines


def embed(text: str, stage: str, seed: int, *, size: int = 400) -> bytes:
    """The sample inside a log of its stage, carried the way some system carries logs."""
    rng = random.Random(seed)
    lines = text.split("\n")
    if stage in ("runtime", "import"):
        body = [*_PIP.split("\n"), *progress(rng, size // 4), "Finished processing dependencies for ext==0.1"]
        body += [*_RUN.split("\n"), *lines, *_RUN_END.split("\n")]
    elif stage == "install":
        body = [*_PIP.split("\n"), *lines, "[notice] To update, run: pip install --upgrade pip"]
    elif stage in ("source", "configure"):
        body = [*_CONFIGURE.split("\n"), *lines, *_BUILD_END.split("\n")]
    else:
        summary = _SUMMARY.format(cuda=rng.choice(("ON", "OFF")))
        probes = rng.choice(_PROBES).split("\n")
        body = [*_CONFIGURE.split("\n"), *probes, *summary.split("\n"), *progress(rng, size)]
        body += [*_interleaved(rng, lines), *progress(rng, 6), *_BUILD_END.split("\n")]
    return rng.choice(CARRIERS)(body)


def _interleaved(rng: random.Random, lines: list[str]) -> list[str]:
    """A parallel make puts a line of another job in between; before or after, not inside, each of ours."""
    if rng.random() < 0.7 or len(lines) < 3:
        return lines
    at = rng.choice((1, len(lines) - 1))
    return [*lines[:at], *progress(rng, 2), *lines[at:]]


def _plain(lines: list[str]) -> bytes:
    return "\n".join(lines).encode()


def _crlf(lines: list[str]) -> bytes:
    return "\r\n".join(lines).encode()


def _powershell(lines: list[str]) -> bytes:
    return "\r\n".join(lines).encode("utf-16")


def _coloured(lines: list[str]) -> bytes:
    paint = (("error:", "\x1b[01;31m\x1b[Kerror:\x1b[m\x1b[K"), ("warning:", "\x1b[01;35m\x1b[Kwarning:\x1b[m\x1b[K"))
    text = "\n".join(lines)
    for word, painted in paint:
        text = text.replace(word, painted)
    return text.encode()


def _docker(lines: list[str]) -> bytes:
    return "\n".join(f"#14 {31 + number * 0.01:.2f} {line}".rstrip() for number, line in enumerate(lines)).encode()


def _compose(lines: list[str]) -> bytes:
    return "\n".join(f"trainer-1  | {line}".rstrip() for line in lines).encode()


def _actions(lines: list[str]) -> bytes:
    return "\n".join(f"2024-05-07T11:02:{n % 60:02d}.1234567Z {line}".rstrip() for n, line in enumerate(lines)).encode()


def _pip_indented(lines: list[str]) -> bytes:
    return "\n".join(f"      {line}".rstrip() for line in lines).encode()


CARRIERS: tuple[Callable[[list[str]], bytes], ...] = (
    _plain, _crlf, _powershell, _coloured, _docker, _compose, _actions, _pip_indented,
)  # fmt: skip
