"""Plans that export tests share: the five recipes people passed around, corrected, and hostile ones."""

from __future__ import annotations

from rekindle.model.plan import BuildRecipe, Plan, Reason, Request

WHY = (Reason(code="no-kernel-image", text="No official wheel has code for sm_35.", source="torch.toml"),)

KEPLER_WINDOWS = Plan(
    answer="build", torch="2.0.1", variant="cu114", cuda="11.4", cudnn="8.7.0", python="3.10", numpy="<2",
    arch_list=("3.5",), because=WHY,
    build=BuildRecipe(
        source="https://github.com/pytorch/pytorch@v2.0.1",
        env={"USE_CUDA": "1", "TORCH_CUDA_ARCH_LIST": "3.5", "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
             "CUDA_PATH": r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v11.4"},
        cmake={"USE_KINETO": "OFF", "CXX_AVX2_FOUND": "OFF"},
        compiler="msvc-19.29", pins={"numpy": "1.26.4", "cmake": "<4", "setuptools": "<74"},
        asserts={"USE_CUDA": "ON"}, losses=("No flash attention on Kepler.",), disk_gib=40, memory_gib=16,
    ),
)  # fmt: skip
IVYBRIDGE_LINUX = Plan(
    answer="build", torch="2.6.0", variant="cu124", cuda="12.4", python="3.11", numpy=">=1.26", arch_list=("8.6",),
    because=(Reason(code="asked", text="A source build was asked for: 100 % faster & <better>?"),),
    build=BuildRecipe(
        source="v2.6.0",
        env={"USE_CUDA": "1", "TORCH_CUDA_ARCH_LIST": "8.6", "CXXFLAGS": "-march=ivybridge"},
        cmake={"CXX_AVX2_FOUND": "OFF", "CXX_AVX512_FOUND": "OFF"},
        compiler="gcc-12", asserts={"USE_CUDA": "ON", "USE_MPI": "OFF"}, disk_gib=40, memory_gib=8,
    ),
)  # fmt: skip
ROCM = Plan(
    answer="build", torch="2.8.0", variant="rocm7.0", rocm="7.0", python="3.12", arch_list=("gfx1031",),
    build=BuildRecipe(source="v2.8.0", env={"USE_ROCM": "1", "PYTORCH_ROCM_ARCH": "gfx1031"}, disk_gib=60),
)  # fmt: skip
BLACKWELL = Plan(
    answer="install", torch="2.7.1", variant="cu128", cuda="12.8", python="3.11",
    requests=(Request(name="torch", version="2.7.1+cu128", index="https://download.pytorch.org/whl/cu128"),),
    because=(Reason(code="wheel-has-arch", text="The cu128 wheel has code for sm_120."),),
)  # fmt: skip
CPU = Plan(
    answer="build", torch="2.6.0", variant="cpu", python="3.11",
    build=BuildRecipe(source="v2.6.0", env={"USE_CUDA": "0"}, disk_gib=20, memory_gib=4),
)  # fmt: skip
ALL = {"kepler": KEPLER_WINDOWS, "ivybridge": IVYBRIDGE_LINUX, "rocm": ROCM, "blackwell": BLACKWELL, "cpu": CPU}

# Every character that means something somewhere.
NASTY = "a b%PATH%c&d|e<f>g^h'i`j$k\\l;m!n(o)p#q*r?s~t{u}v[w]x=y,z%"
HOSTILE = Plan(
    answer="build", torch="2.6.0", variant="cpu", python="3.11",
    because=(Reason(code="x", text="line one\nrm -rf /\r\n\x1b[31m", source="x\n& del *"),),
    build=BuildRecipe(source="v2.6.0", env={"CXXFLAGS": NASTY}, cmake={"SOMETHING": NASTY}, disk_gib=1, memory_gib=1,
                      losses=("${{ secrets.X }} $(whoami) `id` %PATH%",)),
)  # fmt: skip
