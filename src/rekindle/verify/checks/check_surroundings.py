"""What torch shares with its surroundings: files, NumPy, loaders, threads, other processes."""

import os
import pickle
import threading
from functools import partial

from rekindle_checks import reference as ref
from rekindle_checks.child import Child
from rekindle_checks.framework import Failed, Untried, check, scratch


@check("save-load", level="smoke", remedy="the wheel's zip writer or its alignment is broken: rebuild")
def _save_load(t, torch):
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    x = torch.tensor(ref.grid(8), dtype=torch.float32).reshape(2, 4)
    want = net(x)
    half = torch.arange(5).to(torch.bfloat16)
    with scratch("sävé ") as folder:
        path = os.path.join(folder, "netz ü.pt")
        t.step("save")
        torch.save({"net": net.state_dict(), "half": half, "n": 7}, path)
        t.step("load")
        back = torch.load(path, map_location="cpu")
        other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        other.load_state_dict(back["net"])
        t.close(other(x), want, 0.0, 1e-12, "the same network after a round trip")
        t.equal(back["half"].tolist(), half.tolist(), "bfloat16 after a round trip")
        t.equal(back["n"], 7, "a number after a round trip")
        t.step("old format")
        torch.save(half, path, _use_new_zipfile_serialization=False)
        t.equal(torch.load(path).tolist(), half.tolist(), "the old format after a round trip")
        t.step("pickle")
        t.equal(pickle.loads(pickle.dumps(half)).tolist(), half.tolist(), "pickled tensor")
    return "zip, old format and pickle, in a folder with spaces and accents"


@check("numpy", level="smoke", remedy="this torch was built against another NumPy: install numpy<2 for torch before 2.3")
def _numpy_interchange(t, torch):
    try:
        import numpy as np
    except ImportError:
        raise Untried("NumPy is not installed in this environment")
    t.step("from_numpy")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    shared = torch.from_numpy(array)
    array[0, 0] = 42
    t.equal(float(shared[0, 0]), 42.0, "memory is shared with NumPy")
    t.step("numpy()")
    back = shared.numpy()
    back[1, 2] = -1
    t.equal(float(shared[1, 2]), -1.0, "memory is shared with torch")
    t.step("dtypes")
    for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"):
        zeros = torch.zeros(3, dtype=getattr(torch, name)).numpy()
        t.equal(str(zeros.dtype), name, "dtype")
        t.equal(torch.from_numpy(zeros).dtype, getattr(torch, name), "dtype back")
    t.step("float64 reference")
    rng = np.random.RandomState(0)
    a, b = rng.standard_normal((40, 50)), rng.standard_normal((50, 30))
    t.close(torch.from_numpy(a) @ torch.from_numpy(b), a.dot(b), 1e-12, 1e-12, "matmul = NumPy in float64")
    t.close(torch.from_numpy(a).float() @ torch.from_numpy(b).float(), a.dot(b), 1e-4, 1e-4, "matmul in float32")
    return "NumPy %s, memory shared both ways, 11 dtypes" % np.__version__


class _Squares(object):
    """A dataset that says which process made each item."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        import torch

        return torch.tensor([index * index, os.getpid()])


@check("data-loader", level="full", timeout=120, remedy="shared memory (/dev/shm) may be too small: docker run --shm-size=1g")
def _data_loader(t, torch):
    why = "workers and their shared memory manager are started by exec, which the emulation cannot do"
    t.untried_where(t.emulated, why)
    t.untried_where(os.name == "nt", "workers must import their dataset from a file on Windows; checks have none there")
    t.step("two workers")
    loader = torch.utils.data.DataLoader(_Squares(), batch_size=4, num_workers=2, timeout=60)
    batches = list(loader)
    items = sorted(int(v) for batch in batches for v in batch[:, 0])
    t.equal(items, [i * i for i in range(32)], "items")
    workers = set(int(v) for batch in batches for v in batch[:, 1])
    t.ensure(os.getpid() not in workers and len(workers) == 2, "items came from %d processes" % len(workers))
    t.step("sharing by file")
    torch.multiprocessing.set_sharing_strategy("file_system")
    again = list(torch.utils.data.DataLoader(_Squares(), batch_size=8, num_workers=2, timeout=60))
    t.equal(len(again), 4, "batches with the shared memory manager")
    return "32 items from 2 workers, both sharing strategies"


@check("threads", level="smoke", remedy="two OpenMP runtimes may be loaded: rekindle inspect WHEEL lists them")
def _threads(t, torch):
    x = torch.tensor(ref.rough(160 * 160), dtype=torch.float64).reshape(160, 160)
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
    kind = "OpenMP" if "OpenMP" in torch.__config__.parallel_info() else "native threads"
    return "%s, 1 and 4 threads agree, 8 Python threads" % kind


def _ask_children(t, works):
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
def _fork(t, torch):
    """A child that computes after its parent has computed: the classic deadlock of OpenMP runtimes."""
    t.untried_where(not hasattr(os, "fork"), "this system has no fork")
    torch.set_num_threads(1)
    x = torch.tensor(ref.rough(64 * 64), dtype=torch.float64).reshape(64, 64)
    want = float((x @ x).sum())
    reply = _ask_children(t, [lambda: float((x @ x).sum())])
    if not reply:
        raise Failed("the child died without an answer")
    t.close(reply, want, 1e-12, 1e-12, "matmul in a forked child")
    return "a forked child computes what its parent does"


def _gloo_worker(rank, world, port_file):
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
def _distributed(t, torch):
    lacking = not hasattr(torch, "distributed") or not torch.distributed.is_available()
    t.absent_where(lacking, "built without torch.distributed")
    t.absent_where(not getattr(torch.distributed, "is_gloo_available", lambda: True)(), "built without gloo")
    t.untried_where(not hasattr(os, "fork"), "checks start their processes by fork")
    t.untried_where(t.emulated, "networking under emulation proves nothing about the CPU")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    world = 2
    with scratch("gloo") as folder:
        place = os.path.join(folder, "rendezvous")
        answers = _ask_children(t, [partial(_gloo_worker, rank, world, place) for rank in range(world)])
    t.equal(len(answers), world, "answers")
    for answer in answers:
        t.equal(answer, [[1.0, 3.0, 5.0, 7.0], [0.0, 1.0], [1.0, 1.0]], "all_reduce, all_gather, broadcast")
    return "gloo: all_reduce, all_gather, broadcast, barrier between 2 processes"
