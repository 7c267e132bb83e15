#!/usr/bin/env python3
"""``make accuracy``: scan the units that the ground truth covers, and print how the casts agree with LLVM IR.

Exit code 1 when a figure that the project asks of itself is not reached.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import ground_truth
from measure import RELEASES, cost_of, framework_of, read_json, scan_command, sources


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--root",
        type=Path,
        help="the sources (default: the release that the truth is of, brought by scripts/get_sources.sh)",
    )
    parser.add_argument(
        "--truth", type=Path, default=ground_truth.PYTORCH_2_6, help="casts that IR shows, as ir_truth.py writes them"
    )
    parser.add_argument("--db", help="compare what this database holds, without a scan (file or URL)")
    parser.add_argument("--list", type=int, default=20, metavar="N", help="differences to print of each kind")
    options = parser.parse_args()
    truth = ground_truth.load_truth(options.truth)
    with tempfile.TemporaryDirectory(prefix="opscanner-accuracy-") as folder:
        database = options.db or f"{folder}/accuracy.sqlite"
        if not options.db:
            root = options.root or sources(*RELEASES[framework_of(truth)])
            cost = cost_of(scan_command(root, truth, database))
            print(f"scanned in {cost.elapsed_s:.0f} s ({cost.cpu_s:.0f} s CPU)", file=sys.stderr)
        casts = json.loads(read_json("casts", "--db", database))
        arithmetic = json.loads(read_json("arithmetic", "--db", database))
    return report(truth, casts, arithmetic, options.list)


def report(truth: dict[str, Any], casts: list[Any], arithmetic: list[Any], most: int) -> int:
    """Print the comparison; 1 when a figure is not reached."""
    recall, precision, untold = ground_truth.compare_casts(truth, casts)
    print(f"translation units    {len(truth)}")
    for how, agreement in recall.items():
        show(f"recall, {how}", agreement, "missed", most)
    show("precision", precision, "not in IR", most)
    print(f"  {untold} more stand where no device code was emitted: IR cannot tell")
    for agreement, word in zip(
        ground_truth.compare_arithmetic(truth, arithmetic), ("missed", "not in IR"), strict=True
    ):
        show(f"16-bit arithmetic, {agreement.name}", agreement, word, most)
    asked = {how: least for how, least in ground_truth.LEAST_RECALL.items() if how in recall}
    reached = precision.share >= ground_truth.LEAST_PRECISION and all(
        recall[how].share >= least for how, least in asked.items()
    )
    words = [f"{how} recall {least}" for how, least in asked.items()]
    print(f"asked for: {', '.join(words)}, precision {ground_truth.LEAST_PRECISION}:", "yes" if reached else "NO")
    return 0 if reached else 1


def show(title: str, agreement: ground_truth.Agreement, word: str, most: int) -> None:
    print(f"{title:30} {agreement.share:.4f}  ({agreement.hits} of {agreement.total})")
    for difference in agreement.differences[:most]:
        print(f"  {word}:", *difference)
    if len(agreement.differences) > most:
        print(f"  ... and {len(agreement.differences) - most} more (--list)")


if __name__ == "__main__":
    sys.exit(main())
