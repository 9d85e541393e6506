"""Is this the torch that was planned, and does it compute at all?"""

import sys

from rekindle_checks.kit import check


@check("version", level="smoke", remedy="install the planned wheel; another torch comes first on this Python's path")
def version(t):
    torch = t.torch()
    want = t.plan.get("version")
    if want:
        got = torch.__version__
        t.ensure(got == want or got.split("+")[0] == want, "torch is %s, the plan says %s" % (got, want))
    return "%s on Python %s" % (torch.__version__, sys.version.split()[0])


@check("arithmetic", level="smoke")
def arithmetic(t):
    torch = t.torch()
    # Closed form: 1 + 2 + ... + 1000; small integers are exact in float32.
    t.close((torch.arange(1000.0) + 1).sum(), 500500.0, rtol=0.0, atol=1e-9, what="sum")
    t.close(torch.arange(6.0).reshape(2, 3) @ torch.ones(3, 2), [3, 3, 12, 12], rtol=0.0, atol=1e-9, what="matmul")
    return "sums and products of small integers are exact"
