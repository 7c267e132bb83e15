#!/usr/bin/env python3
"""What a watch costs a model's training step: time beside the plain step, and memory beside the largest layer.

    python benchmarks/bench_watch.py [--models resnet transformer] [--rounds 5] [--threads 1]

Time is CPU time of whole steps (forward, backward, no optimizer), taken in turns in one process; each ratio is the
median over rounds of that round's own plain steps. Memory is the peak of a process of its own, watched less plain,
beside the inputs and outputs of the largest call of an operator, with batches of 64.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import opscanner
from opscanner.dynamic.experiments.models import MODELS, Experiment
from opscanner.dynamic.running.calls import tensors_of

#: Widths of 512 channels and of 768, as released models have them.
SIZES: dict[str, dict[str, Any]] = {
    "resnet": {"scale": 8.0, "batch_size": 16},
    "transformer": {"scale": 12.0, "length": 128, "batch_size": 8},
}

#: For peaks of memory: with the models' own batches, tensors are small beside what importing torch takes.
_LARGE_BATCH = 64

KINDS: dict[str, dict[str, Any]] = {
    "all checked": {"every": 1},
    "1 in 20": {"every": 20},
    "upcast, modules": {"mode": "upcast"},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["resnet", "transformer"], choices=sorted(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak_of:
        return peak(options.models[0], options.peak_of)
    print(
        f"{'model':12} {'plain step, ms':>14}  "
        + "  ".join(f"{name:>15}" for name in KINDS)
        + "   MiB more  largest call"
    )
    for name in options.models:
        plain, ratios = times(name, options.rounds)
        base, largest = measured_peak(name, options, "plain")
        watched, _ = measured_peak(name, options, "all checked")
        print(
            f"{name:12} {plain * 1e3:14.0f}  "
            + "  ".join(f"{ratios[kind]:15.3f}" for kind in KINDS)
            + f"  {watched - base:9.0f}  {largest:8.0f} MiB"
        )
    return 0


def times(name: str, rounds: int) -> tuple[float, dict[str, float]]:
    experiment = MODELS[name].build(**SIZES.get(name, {}))
    step(experiment, 0)
    plain: list[float] = []
    ratios: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind, options in KINDS.items():
            count = max(4, options.get("every", 1))
            before = timed(experiment, count)
            with opscanner.watch(experiment.model, **options):
                step(experiment, number)  # the first step makes the sites
                watched = timed(experiment, count)
            plain.append(before)
            ratios[kind].append(watched / before)
    return statistics.median(plain), {kind: statistics.median(found) for kind, found in ratios.items()}


def timed(experiment: Experiment, steps: int) -> float:
    began = time.process_time()
    for number in range(steps):
        step(experiment, number)
    return (time.process_time() - began) / steps


def step(experiment: Experiment, number: int) -> None:
    experiment.model.zero_grad()
    experiment.loss(experiment.model, experiment.batch(number)).backward()


class _LargestCall(TorchDispatchMode):
    """Bytes of the inputs and outputs of the largest call."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        distinct = {one.data_ptr(): one.nbytes for one in tensors_of((args, result), kwargs or {})}
        self.largest = max(self.largest, sum(distinct.values()))
        return result


def peak(name: str, kind: str) -> int:
    """Prints the peak of this process after some steps."""
    experiment = MODELS[name].build(**SIZES.get(name, {}) | {"batch_size": _LARGE_BATCH})
    counting = _LargestCall()
    with counting:
        step(experiment, 0)
    with watching(experiment, kind):
        for number in range(3):
            step(experiment, number)
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"peak": kib / 1024, "largest": counting.largest / (1 << 20)}))
    return 0


@contextlib.contextmanager
def watching(experiment: Experiment, kind: str) -> Iterator[None]:
    if kind == "plain":
        yield
        return
    with opscanner.watch(experiment.model, **KINDS[kind]):
        yield


def measured_peak(name: str, options: argparse.Namespace, kind: str) -> tuple[float, float]:
    """MiB of the peak of a process that trains, and of the largest call's tensors."""
    command = [sys.executable, __file__, "--models", name, "--peak-of", kind,
               "--threads", str(options.threads)]  # fmt: skip
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return said["peak"], said["largest"]


if __name__ == "__main__":
    sys.exit(main())
