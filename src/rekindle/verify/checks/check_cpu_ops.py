"""The kernel families on the CPU."""

from functools import partial

from rekindle_checks import families, families_more
from rekindle_checks.framework import check, read_table

WRONG = "wrong numbers from compiled code: compare with ATEN_CPU_CAPABILITY=default, and with another compiler"

for _id, _level, _family, _remedy, _seconds in read_table("families")["cpu"]:
    _run = getattr(families, _family, None) or getattr(families_more, _family)
    check(_id, level=_level, timeout=_seconds, remedy=_remedy or WRONG)(partial(_run, device="cpu"))


@check("ops.conv-native", level="full", remedy=WRONG)
def _convolutions_native(t, torch):
    mkldnn = torch.backends.mkldnn
    t.absent_where(not mkldnn.is_available(), "built without oneDNN: ops.conv already took the native path")
    t.absent_where(not hasattr(mkldnn, "flags"), "this torch cannot switch oneDNN off")
    with mkldnn.flags(enabled=False):
        return families.convolutions(t, torch, "cpu") + ", without oneDNN"


@check("ops.recurrent", level="full", remedy=WRONG)
def _recurrent(t, torch):
    torch.manual_seed(1)
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        t.step(kind.__name__)
        layer = kind(5, 7, batch_first=True).double()
        x = torch.randn(2, 6, 5, dtype=torch.float64)
        whole = layer(x)[0]
        state, steps = None, []
        for index in range(6):
            out, state = layer(x[:, index : index + 1], state)
            steps.append(out)
        t.close(torch.cat(steps, 1), whole, 1e-10, 1e-10, "step by step = all at once")
    return "LSTM and GRU: step by step = all at once"


@check("ops.quantized", level="full", timeout=90, remedy="this engine needs instructions the CPU lacks: set torch.backends.quantized.engine to another")
def _quantized(t, torch):
    """Dynamic quantised linear in each engine: the one path known to crash official wheels on CPUs without AVX."""
    engines = [name for name in torch.backends.quantized.supported_engines if name != "none"]
    t.absent_where(not engines, "built without quantised engines")
    x = torch.tensor([[1.0, -1.0, 0.5, 0.25, -0.75, 1.5, 2.0, -2.0]] * 3)
    weight = torch.tensor([[0.5] * 8, [-0.25] * 8, [1.0] * 8, [0.125] * 8])
    want = (x.double() @ weight.double().t()).float()
    done, absent = [], []
    for engine in engines:
        t.step(engine)
        torch.backends.quantized.engine = engine
        # Seven bits: two products of eight bits, added in 16, saturate on x86 without VNNI, in every right torch too.
        scaled = torch.quantize_per_tensor(weight, 1.0 / 63, 0, torch.qint8)
        try:
            packed = torch.ops.quantized.linear_prepack(scaled, None)
            got = torch.ops.quantized.linear_dynamic(x, packed)
        except RuntimeError as error:
            absent.append("%s (%s)" % (engine, str(error).splitlines()[0][:60]))
            continue
        # Eight products, each of values rounded to 8 bits of a range of 4 and to 7 of a range of 2.
        t.close(got, want, 0.02, 0.1, "linear_dynamic in " + engine)
        done.append(engine)
    t.untried_where(not done, "no engine runs on this CPU: " + "; ".join(absent))
    return "engines " + " ".join(done) + ("; refused: " + "; ".join(absent) if absent else "")
