#!/usr/bin/env python3
"""How many values a second are rounded, compared and summed? Beside numpy's float64 exp of the same values.

    python benchmarks/bench_ulp.py [--values 4194304] [--repeat 7]

Prints the best of several runs in CPU time of one core, float16 results against float64 references: absolute, and as a
ratio to exp in the same run. Exit code 1 when errors are counted slower than the project asks of itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from opscanner.precision.exact_sum import exact_dot, exact_sum
from opscanner.precision.metrics import summarize_errors
from opscanner.precision.rounding import round_to_format, to_bits
from opscanner.precision.ulp import mismatch_classes, ulp_distance, ulp_error

LEAST_PER_SECOND = 50e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=1 << 22)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    exact = rng.standard_normal(options.values)
    low = exact * 2.0**-54 * rng.uniform(-1, 1, options.values)
    got = round_to_format(exact, "float16")
    special = got.copy()
    special[rng.integers(0, options.values, options.values // 100)] = np.inf
    cases: dict[str, Callable[[], Any]] = {
        "numpy.exp": lambda: np.exp(exact),
        "ulp_error": lambda: ulp_error(got, exact, "float16"),
        "ulp_error, 1 % infinities": lambda: ulp_error(special, exact, "float16"),
        "ulp_error, pairs": lambda: ulp_error(got, exact, "float16", low),
        "ulp_error, float64": lambda: ulp_error(exact, exact, "float64", low),
        "round_to_format": lambda: round_to_format(exact, "float16"),
        "round_to_format, pairs": lambda: round_to_format(exact, "float16", low),
        "ulp_distance": lambda: ulp_distance(got, special, "float16"),
        "mismatch_classes": lambda: mismatch_classes(got, exact, "float16"),
        "to_bits": lambda: to_bits(got, "float16"),
        "summarize_errors": lambda: summarize_errors(got, exact, "float16"),
        "exact_sum": lambda: exact_sum(exact),
        "exact_sum, rows of 256": lambda: exact_sum(exact[: options.values & -256].reshape(-1, 256)),
        "exact_sum, rows of 8": lambda: exact_sum(exact[: options.values & -8].reshape(-1, 8)),
        "exact_dot, rows of 256": lambda: exact_dot(*(got[: options.values & -256].reshape(-1, 256),) * 2),
    }
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(options.repeat):
        # In turn, so that what else the machine does falls on all alike.
        for name, run in cases.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    print(f"{options.values:,} values                million/s   of exp")
    for name, elapsed_s in best.items():
        print(f"{name:28s} {options.values / elapsed_s / 1e6:12.1f} {best['numpy.exp'] / elapsed_s:8.2f}")
    reached = options.values / best["ulp_error"] >= LEAST_PER_SECOND
    if not reached:
        print(f"ulp_error is slower than {LEAST_PER_SECOND / 1e6:.0f} million values a second", file=sys.stderr)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
