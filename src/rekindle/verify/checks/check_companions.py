"""torchvision and torchaudio, where they are installed: they break when they do not fit the torch beside them."""

import math

from rekindle_checks import reference as ref
from rekindle_checks.framework import Absent, accelerator, check

PAIR = "torchvision and torchaudio must be built for exactly this torch: rekindle plan names the pair"


def companion(name):
    import importlib.util

    if importlib.util.find_spec(name) is None:
        raise Absent("%s is not installed" % name)
    return __import__(name)


@check("vision", level="full", timeout=180, remedy=PAIR)
def vision(t, torch):
    torchvision = companion("torchvision")
    t.step("import ops")
    import torchvision.ops

    t.step("nms")
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    indices = torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)
    # The first two overlap by 81 of 119: the weaker one goes.
    t.equal(indices.tolist(), [0, 2], "boxes kept")
    t.step("roi_align")
    image = torch.arange(64, dtype=torch.float32).reshape(1, 1, 8, 8)
    pooled = torchvision.ops.roi_align(image, torch.tensor([[0.0, 0, 0, 8, 8]]), output_size=1, aligned=True)
    # A plane's mean over a window is its value in the middle.
    t.close(pooled, 31.5, 1e-5, 1e-4, "mean over the whole image")
    word, driver = accelerator(torch)
    if driver.is_available():
        t.step("nms on the GPU")
        gpu = torchvision.ops.nms(boxes.to(word), torch.tensor([0.9, 0.8, 0.7]).to(word), 0.5)
        t.equal(gpu.tolist(), [0, 2], "boxes kept on the GPU")
    return "torchvision %s: nms, roi_align" % torchvision.__version__


@check("audio", level="full", timeout=180, remedy=PAIR)
def audio(t, torch):
    torchaudio = companion("torchaudio")
    t.step("import")
    import torchaudio.functional

    t.step("gain")
    x = torch.tensor(ref.grid(400), dtype=torch.float32)
    t.close(torchaudio.functional.gain(x, 20.0), [10 * v for v in ref.grid(400)], 1e-5, 1e-5, "20 dB is a factor of ten")
    t.step("resample")
    rate = 800
    tone = torch.tensor([math.sin(2 * math.pi * 50 * n / rate) for n in range(rate)], dtype=torch.float64)
    half = torchaudio.functional.resample(tone, rate, rate // 2)
    want = [math.sin(2 * math.pi * 50 * n / (rate // 2)) for n in range(rate // 2)]
    t.close(half[50:-50], want[50:-50], 0.0, 0.02, "a tone at half the rate is the same tone")
    return "torchaudio %s: gain, resample" % torchaudio.__version__
