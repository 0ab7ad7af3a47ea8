"""Shares of larger caches that a model has slower: python -m benchmarks.perfvec.slower_caches [MODEL …]

Of sampled machines, each with one cache twice as large at the same latency, and of the programs that the model knows.
"""

from __future__ import annotations

import argparse

import torch

from perfvec.model import load_model
from perfvec.training.ordered import SIZES, excess, not_slower

MACHINES, SEED = 300, 5


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", default=[None], help="the shipped one by default")
    for path in parser.parse_args().model:
        model = load_model(path)
        assert model.encoder is not None and model.program_vectors is not None
        known = model.program_vectors[model.program_vectors.any(axis=1)]
        for field in SIZES:
            found = excess(model.encoder, not_slower(MACHINES, SEED, [field]), torch.from_numpy(known).float())
            shares = ", ".join(
                f"{share:.1%} by {least:.1%}"
                for least in (0.001, 0.01, 0.03)
                for share in [(found > least).float().mean()]
            )
            print(f"{path or 'shipped'}: {field}: {found.numel():,} pairs; slower: {shares}")


if __name__ == "__main__":
    main()
