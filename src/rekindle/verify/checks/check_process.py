"""Threads, fork, several processes."""

import os
import threading
from functools import partial

from rekindle_checks import reference as ref
from rekindle_checks.child import Child
from rekindle_checks.framework import Absent, Failed, Untried, check, scratch


@check("threads", level="smoke", remedy="two OpenMP runtimes may be loaded: rekindle inspect WHEEL lists them")
def threads(t, torch):
    text = torch.__config__.parallel_info()
    size = 160
    x = torch.tensor(ref.rough(size * size), dtype=torch.float64).reshape(size, size)
    t.step("one thread")
    torch.set_num_threads(1)
    single = x @ x
    sums = (x * 2 + 1).sum(1)
    t.step("four threads")
    torch.set_num_threads(4)
    t.equal(torch.get_num_threads(), 4, "threads after set_num_threads(4)")
    t.close((x @ x), single, 1e-11, 1e-11, "matmul with 4 threads = with 1")
    t.close((x * 2 + 1).sum(1), sums, 1e-11, 1e-11, "sum with 4 threads = with 1")
    t.step("large, so that the work is shared out")
    long = torch.arange(1 << 20, dtype=torch.float64)
    t.close(long.sum(), (1 << 20) * ((1 << 20) - 1) / 2.0, 0.0, 1e-6, "sum of a million numbers")
    t.step("Python threads")
    results, errors = {}, []

    def work(number):
        try:
            results[number] = float((x[number] * number).sum())
        except Exception as error:  # an error in a thread would vanish with it
            errors.append(error)

    crew = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join(60)
    if errors:
        raise errors[0]
    t.close([results[n] for n in range(8)], [float((x[n] * n).sum()) for n in range(8)], 1e-12, 1e-12, "threads")
    kind = "OpenMP" if "OpenMP" in text else "native threads"
    return "%s, 1 and 4 threads agree, 8 Python threads" % kind


def ask_children(t, works):
    """What these say, each in a forked process of its own; errors told."""

    def answer(tell, work):
        try:
            tell({"said": work()})
        except Exception as error:
            tell({"error": "error: " + (str(error).splitlines() or ["no message"])[0]})

    children = []
    for number, work in enumerate(works):
        t.step("child %d" % number)
        children.append(Child(partial(answer, work=work), own_group=False))
    t.step("waiting for the children")
    answers = [line for child in children for line in child.lines(None)]
    for child in children:
        child.end()
    for line in answers:
        t.ensure("error" not in line, line.get("error"))
    return [line["said"] for line in answers]


@check("fork", level="full", timeout=90, remedy="an OpenMP runtime that does not survive fork is loaded: use spawn, or relink against GNU OpenMP")
def fork(t, torch):
    """A child that computes after its parent has computed: the classic deadlock of OpenMP runtimes."""
    if not hasattr(os, "fork"):
        raise Untried("this system has no fork")
    torch.set_num_threads(1)
    x = torch.tensor(ref.rough(64 * 64), dtype=torch.float64).reshape(64, 64)
    want = float((x @ x).sum())
    reply = ask_children(t, [lambda: float((x @ x).sum())])
    if not reply:
        raise Failed("the child died without an answer")
    t.close(reply, want, 1e-12, 1e-12, "matmul in a forked child")
    return "a forked child computes what its parent does"


def gloo_worker(rank, world, port_file):
    import datetime

    import torch
    import torch.distributed as dist

    dist.init_process_group(
        "gloo", init_method="file://" + port_file, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=45)
    )
    x = torch.arange(4, dtype=torch.float32) + rank
    dist.all_reduce(x)
    everyone = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(everyone, torch.tensor([float(rank * rank)]))
    y = torch.full((2,), float(rank))
    dist.broadcast(y, 1)
    dist.barrier()
    dist.destroy_process_group()
    return [x.tolist(), [float(e) for e in everyone], y.tolist()]


@check("distributed", level="full", timeout=120, remedy="gloo found no usable network interface: set GLOO_SOCKET_IFNAME=lo")
def distributed(t, torch):
    if not hasattr(torch, "distributed") or not torch.distributed.is_available():
        raise Absent("built without torch.distributed")
    if not getattr(torch.distributed, "is_gloo_available", lambda: True)():
        raise Absent("built without gloo")
    if not hasattr(os, "fork"):
        raise Untried("checks start their processes by fork")
    if t.emulated:
        raise Untried("networking under emulation proves nothing about the CPU")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    world = 2
    with scratch("gloo") as folder:
        place = os.path.join(folder, "rendezvous")
        answers = ask_children(t, [partial(gloo_worker, rank, world, place) for rank in range(world)])
    t.equal(len(answers), world, "answers")
    for answer in answers:
        t.equal(answer, [[1.0, 3.0, 5.0, 7.0], [0.0, 1.0], [1.0, 1.0]], "all_reduce, all_gather, broadcast")
    return "gloo: all_reduce, all_gather, broadcast, barrier between 2 processes"
