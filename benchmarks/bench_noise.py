#!/usr/bin/env python3
"""What a perturbed copy and a comparison cost, in units of torch.add of the same tensors.

    python benchmarks/bench_noise.py [--repeat 15] [--threads 1]

Prints the best of several runs, all in turn so that what else the machine does falls on all alike. Everything new is
allocated anew each time, as in a model.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from opscanner.dynamic.running.compare import compare, quick_errors
from opscanner.dynamic.running.noise import NoiseSource

SIZES = (1_000, 100_000, 10_000_000)
FORMATS = (torch.float32, torch.bfloat16, torch.float16)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'elements':>10} {'format':9} {'add, us':>9}   of add: clone  perturbed  quick_errors  compare")
    for size in SIZES:
        for format_ in FORMATS:
            first = torch.randn(size, generator=torch.Generator().manual_seed(1)).to(format_)
            second = NoiseSource(1).perturbed(first)
            source = NoiseSource(2)
            cases: dict[str, Callable[[], Any]] = {
                "add": lambda a=first, b=second: a + b,
                "clone": lambda a=first: a.clone(),
                "perturbed": lambda a=first, noise=source: noise.perturbed(a),
                "quick_errors": lambda a=first, b=second: quick_errors(a, b),
                "compare": lambda a=first, b=second: compare(a, b),
            }
            best = _best(cases, options.repeat, max(1, 200_000 // size))
            ratios = [best[name] / best["add"] for name in list(cases)[1:]]
            print(
                f"{size:10,} {str(format_).removeprefix('torch.'):9} {best['add'] * 1e6:9.1f}"
                f"{ratios[0]:16.2f}{ratios[1]:11.2f}{ratios[2]:14.2f}{ratios[3]:9.1f}",
                flush=True,
            )
    return 0


def _best(cases: dict[str, Callable[[], Any]], repeat: int, calls: int) -> dict[str, float]:
    """The shortest time of one call of each, in seconds."""
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(repeat):
        for name, run in cases.items():
            start = time.perf_counter()
            for _ in range(calls):
                run()
            best[name] = min(best[name], (time.perf_counter() - start) / calls)
    return best


if __name__ == "__main__":
    sys.exit(main())
