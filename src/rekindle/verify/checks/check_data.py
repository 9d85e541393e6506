"""Data in and out: files, NumPy, loaders."""

import os
import pickle

from rekindle_checks import reference as ref
from rekindle_checks.framework import Untried, check, scratch


@check("save-load", level="smoke", remedy="the wheel's zip writer or its alignment is broken: rebuild")
def save_load(t, torch):
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
def numpy_interchange(t, torch):
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


class Squares(object):
    """A dataset that says which process made each item."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        import torch

        return torch.tensor([index * index, os.getpid()])


@check("data-loader", level="full", timeout=120, remedy="shared memory (/dev/shm) may be too small: docker run --shm-size=1g")
def data_loader(t, torch):
    if t.emulated:
        raise Untried("workers and their shared memory manager are started by exec, which the emulation cannot do")
    if os.name == "nt":
        raise Untried("workers must import their dataset from a file on Windows; checks have none there")
    t.step("two workers")
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, timeout=60)
    batches = list(loader)
    items = sorted(int(v) for batch in batches for v in batch[:, 0])
    t.equal(items, [i * i for i in range(32)], "items")
    workers = set(int(v) for batch in batches for v in batch[:, 1])
    t.ensure(os.getpid() not in workers and len(workers) == 2, "items came from %d processes" % len(workers))
    t.step("sharing by file")
    torch.multiprocessing.set_sharing_strategy("file_system")
    again = list(torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2, timeout=60))
    t.equal(len(again), 4, "batches with the shared memory manager")
    return "32 items from 2 workers, both sharing strategies"
