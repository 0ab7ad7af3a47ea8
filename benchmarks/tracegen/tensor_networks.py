"""The tasks of every network: `python -m benchmarks.tracegen.tensor_networks [NAME[:batch=B][,size=S][,layers=L] …]`.

Prints a row a network, as Markdown: parameters, distinct tasks and how often they are called, FLOPs of one inference,
and the CPU seconds that the extraction took.
"""

from __future__ import annotations

import os
import sys
import time

os.environ |= {"OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}


def main(names: list[str]) -> None:
    """Extract and print."""
    import torch

    import tracegen.tensor.preload  # noqa: F401
    from tracegen.tensor.networks import networks
    from tracegen.tensor.tasks import network_tasks, parse_network

    torch.set_num_threads(1)
    known = networks()
    print("| network | parameters, million | tasks | calls | MFLOP | seconds |\n|---|---|---|---|---|---|", flush=True)
    for text in names or sorted(known):
        name, _, size, layers = parse_network(text)
        module = known[name].shapes(size, layers)
        parameters = sum(weight.numel() for weight in module.parameters()) / 1e6
        started = time.process_time()
        tasks = network_tasks(text)
        seconds = time.process_time() - started
        calls = [task.networks[text] for task in tasks]
        flops = sum(count * task.flops for count, task in zip(calls, tasks, strict=True)) / 1e6
        row = (text, f"{parameters:,.2f}", len(tasks), sum(calls), f"{flops:,.0f}", f"{seconds:.1f}")
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
