"""A CUDA toolkit by what its programs say, and whether it really compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import needs
from bare_host import BareHost
from rekindle.host.protocol import Completed
from rekindle.model.arch import Sm
from rekindle.toolkits.cuda import ask_release, find_usable_cuda, nvcc_release

BANNER = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.4, V12.4.131\n"
ARCHS = "compute_50\ncompute_90\ncompute_120\n"


class WithNvcc(BareHost):
    """An nvcc on PATH with its answers by option; what is left out fails."""

    def __init__(self, **answers: Completed) -> None:
        super().__init__()
        self.answers = answers

    def which(self, name: str) -> str | None:
        return "/opt/kit/bin/nvcc" if name == "nvcc" else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        return self.answers.get(argv[1].strip("-").replace("-", "_"), Completed(argv=tuple(argv), code=1))


def said(out: str = "", *, code: int = 0, err: str = "") -> Completed:
    return Completed(argv=(), code=code, out=out, err=err)


def test_a_release_and_its_version() -> None:
    assert ask_release(WithNvcc(version=said(BANNER)), "nvcc") == ("12.4", "12.4.131")
    assert ask_release(WithNvcc(version=said("release 12.4\n")), "ptxas") == ("12.4", "12.4"), "no build number"
    assert nvcc_release(WithNvcc(version=said(BANNER)), "nvcc") == "12.4"
    assert ask_release(WithNvcc(version=said("who knows")), "nvcc") is None and nvcc_release(BareHost(), "x") is None


@needs.posix()
def test_a_toolkit_that_compiles_here_is_usable() -> None:
    host = WithNvcc(version=said(BANNER), list_gpu_arch=said(ARCHS), c=said())
    usable = find_usable_cuda(host)
    assert usable.why_not is None and usable.toolkit is not None
    assert (usable.toolkit.version, usable.toolkit.path) == ("12.4", "/opt/kit")
    assert usable.emits == (Sm(5, 0), Sm(9, 0), Sm(12, 0))


def test_one_that_does_not_says_why() -> None:
    assert find_usable_cuda(BareHost()).why_not == "No nvcc was found: CPU only."
    assert "does not say what it can compile for" in str(find_usable_cuda(WithNvcc(version=said(BANNER))).why_not)
    words = "In file included from here\nhost_config.h:138: error: unsupported GNU version! gcc 14\n1 problem\n"
    refused = WithNvcc(version=said(BANNER), list_gpu_arch=said(ARCHS), c=said(code=1, err=words))
    answer = find_usable_cuda(refused)
    assert answer.toolkit is None and answer.why_not == (
        "nvcc 12.4 does not compile here (host_config.h:138: error: unsupported GNU version! gcc 14), so the CUDA part"
        " is left out."
    )
    silent = WithNvcc(version=said(BANNER), list_gpu_arch=said(ARCHS), c=said(code=1))
    assert "it failed without a word" in str(find_usable_cuda(silent).why_not)
