"""Which chips ROCm's kernel files are for, by the names Debian 13 and ROCm 7.2 really ship."""

from __future__ import annotations

from rekindle.inspect.gpu import find_data_files

KERNELS = ("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a-xnack+", "gfx90a-xnack-", "gfx1010", "gfx1100")
ROCBLAS = (
    *(f"Kernels.so-000-{chip}.hsaco" for chip in KERNELS),
    "TensileLibrary.dat",
    "TensileLibrary_gfx1030.co",
    "TensileLibrary_gfx90a.co",
)
MIOPEN = (
    *("gfx803_36.HIP.fdb.txt", "gfx803_64.OpenCL.fdb.txt", "gfx900_56.HIP.fdb.txt", "gfx906_60.HIP.fdb.txt"),
    *("gfx906_64.db.txt", "gfx90878.HIP.fdb.txt", "gfx90878.db.txt", "gfx90a68.HIP.fdb.txt", "gfx90a6e.HIP.fdb.txt"),
    *("gfx942130.HIP.fdb.txt", "gfx942e4.HIP.fdb.txt", "gfx1030_36.HIP.fdb.txt"),
)
HIPBLASLT = (
    "TensileLibrary_B8B8_BB_HA_Bias_SAV_UA_Type_B8B_HPA_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx1200.co",
    *("TensileLibrary_lazy_gfx90a.dat", "extop_gfx1151.co", "hipblasltTransform.hsaco", "hipblasltExtOpLibrary.dat"),
    "Kernels.so-000-gfx908.hsaco",
)


def test_rocblas_as_debian_packs_it() -> None:
    [found] = find_data_files(f"usr/lib/x86_64-linux-gnu/rocblas/2.47.0/library/{name}" for name in ROCBLAS)
    assert found.library == "rocBLAS"
    assert found.gfx == ("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1030", "gfx1100")
    assert found.files == len(ROCBLAS)


def test_miopen_names_hold_the_number_of_compute_units() -> None:
    [found] = find_data_files(f"torch/share/miopen/db/{name}" for name in MIOPEN)
    assert found.gfx == ("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030")


def test_hipblaslt() -> None:
    [found] = find_data_files(f"torch/lib/hipblaslt/library/{name}" for name in HIPBLASLT)
    assert found.gfx == ("gfx908", "gfx90a", "gfx1151", "gfx1200")


def test_generic_targets() -> None:
    [found] = find_data_files(["torch/lib/rocblas/library/TensileLibrary_lazy_gfx11-generic.dat"])
    assert found.gfx == ("gfx11-generic",)


def test_every_name_that_is_read_as_a_chip_has_its_place() -> None:
    """Whatever a file is called: what the pattern takes for a chip can be sorted."""
    chips = ["gfx600", "gfx9f0", "gfx1000", "gfx19ff", "gfx9-generic", "gfx9-4-generic", "gfx12-generic"]
    [found] = find_data_files(f"rocblas/library/K_{chip}.co" for chip in reversed(chips))
    assert found.gfx == ("gfx600", "gfx9f0", "gfx9-4-generic", "gfx9-generic", "gfx1000", "gfx12-generic", "gfx19ff")
    # Only the file's own name counts, not the folder it lies in.
    assert find_data_files(["rocblas/library/gfx906_x/Kernels.co"]) == ()
