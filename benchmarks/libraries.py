"""Rates of our codec, clustering, seal, optimizer and gated unit beside those of libraries, on one thread; of matrix
products in bfloat16 and float32.

pip install hdf5plugin scikit-learn && python -m benchmarks.libraries TRACE
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import torch

from perfvec.architectures.gate import gated
from perfvec.training.optimizer import Muon
from support.seal import BLOCK, check_seal, seal
from tracegen.formats import lzf
from tracegen.formats.trace import Trace
from tracegen.statistics.kmeans import kmeans

ELEMENTS = 1 << 17


def seconds(work: Callable[[], object], times: int = 5) -> float:
    """Return the least processor time of several runs, all threads, after one more."""
    work()
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def codecs(name: str, values: np.ndarray, folder: Path) -> None:
    stored = lzf.encode(values)
    rates = [seconds(lambda: lzf.encode(values)), seconds(lambda: lzf.decode(stored, 0, values.dtype.str, len(values)))]
    print(name, "ours", [round(values.nbytes / rate / 1e6) for rate in rates], "MB/s", values.nbytes / len(stored))
    libraries = {
        "h5py lzf": {"compression": "lzf", "shuffle": True},
        "lz4": {**hdf5plugin.LZ4(), "shuffle": True},
        "blosc lz4": {**hdf5plugin.Blosc(cname="lz4", shuffle=1)},
        "zstd 1": {**hdf5plugin.Zstd(clevel=1), "shuffle": True},
    }
    for library, options in libraries.items():
        path = folder / "library.h5"

        def write(path=path, options=options):
            with h5py.File(path, "w") as file:
                file.create_dataset("x", data=values, chunks=(len(values),), **options)

        def read(path=path):
            with h5py.File(path) as file:
                return file["x"][:]

        rates = [seconds(write), seconds(read)]
        with h5py.File(path) as file:
            ratio = values.nbytes / file["x"].id.get_storage_size()
        print(name, library, [round(values.nbytes / rate / 1e6) for rate in rates], "MB/s", ratio)


def clusterings() -> None:
    """Print the seconds that importing and fitting take, and the sum of squares of ours by that of scikit-learn's."""
    began = time.process_time()
    from sklearn.cluster import KMeans

    print("import of scikit-learn's k-means", time.process_time() - began, "s")
    random = np.random.default_rng(0)
    for count, dimensions, (k, starts) in product((300, 3_000, 20_000), (32, 64), ((8, 5), (48, 2))):
        centres = random.normal(size=(60, dimensions))
        points = centres[random.integers(0, 60, count)] + 0.5 * random.normal(size=(count, dimensions))
        points = points.astype(np.float32)
        model = KMeans(k, n_init=starts, random_state=0, algorithm="lloyd", max_iter=100)
        ours = seconds(lambda points=points, k=k, starts=starts: kmeans(points, k, starts=starts), 3)
        theirs = seconds(lambda points=points, model=model: model.fit(points), 3)
        ratio = kmeans(points, k, starts=starts).distance.sum() / model.inertia_
        print(count, "points of", dimensions, "into", k, ": ours", ours, "s, scikit-learn", theirs, "s, squares", ratio)


def gates_and_products() -> None:
    """Print the seconds of the gated unit and of PyTorch's tanh, and the rates of products, in both precisions."""
    for kind in (torch.float32, torch.bfloat16):
        both, out = torch.randn(4096, 512).to(kind), torch.empty(4096, 256, dtype=kind)
        ours = seconds(lambda both=both, out=out: gated(both, out, 0))
        print("gate", kind, "ours", ours, "s, tanh alone", seconds(lambda both=both: torch.tanh(both[:, :256])), "s")
        left, right = torch.randn(2048, 2048).to(kind), torch.randn(2048, 2048).to(kind)
        rate = 2 * 2048**3 / seconds(lambda left=left, right=right: left @ right) / 1e9
        print("products", kind, round(rate), "GFLOP/s")


def main() -> None:
    torch.set_num_threads(1)
    gates_and_products()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, Trace(sys.argv[1]) as trace:
        folder, chunk = Path(name), next(trace.chunks(1 << 18))
        codecs("static_id", np.resize(chunk.static_id.astype("<u4"), ELEMENTS), folder)
        codecs("address", np.resize(chunk.address.astype("<u8"), ELEMENTS), folder)
        with h5py.File(folder / "s.h5", "w", userblock_size=BLOCK) as file:
            file.create_dataset("x", data=np.random.default_rng(0).integers(0, 1 << 32, 1 << 25, np.uint32))
        seal(folder / "s.h5")
        began = time.process_time()
        check_seal(folder / "s.h5", "test")
        print("seal", round((1 << 27) / (time.process_time() - began) / 1e6), "MB/s")
    clusterings()
    weights = [torch.nn.Parameter(torch.randn(1024, 256)) for _ in range(2)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    ours, theirs = Muon([{"params": weights, "peak": 1e-3, "rows": 256}]), torch.optim.Muon(weights, lr=1e-3)
    print("Muon: ours", seconds(ours.step), "s, torch", seconds(theirs.step), "s")


if __name__ == "__main__":
    main()
