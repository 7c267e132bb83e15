#!/usr/bin/env python3
"""``make bench``: CPU of a cold scan beside clang's own parse of the same translation units, in one run.

clang: ``clang++ -fsyntax-only`` once a unit, with the arguments that the scan gives libclang for the device pass.
opscanner: one ``opscanner scan`` of all units into a new database with an empty cache, so that walking, writing the
database and making precompiled headers are in it. Headers that torchgen makes for the checkout are made beforehand and
told apart: once for a checkout, whatever is scanned. CPU seconds are user and system time, all processes included.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import ground_truth
from measure import Cost, cost_of, newest_clang, scan_command, sources

from compile_db import toolchain
from compile_db.command import ClangCommand
from compile_db.synthesize import pytorch
from compile_db.translate import translate

MOST_OF_CLANG = 0.6  # what the project asks of itself


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="PyTorch 2.6.0 (default: brought by scripts/get_sources.sh)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="workers of the scan (default: all cores)")
    parser.add_argument("--only", action="append", metavar="UNIT", help="instead of the 15 units of the ground truth")
    parser.add_argument(
        "--baseline-cpu-s", type=float, metavar="S", help="clang's figure of an earlier run on this machine"
    )
    options = parser.parse_args()
    root = (options.root or sources("pytorch-2.6.0", "pytorch-v2.6.0")).resolve()
    units = options.only or list(ground_truth.load_truth())
    clang = newest_clang()
    print(subprocess.run([clang, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0])
    with tempfile.TemporaryDirectory(prefix="opscanner-bench-") as folder:
        cache = Path(folder, "cache")
        environment = {"OPSCANNER_CACHE": str(cache)}
        headers = cost_of([sys.executable, __file__, "--make-headers", str(root), str(cache)])
        print(f"headers by torchgen, once for a checkout: {headers.cpu_s:.1f} s CPU")
        commands = device_commands(root, cache, units)
        if options.baseline_cpu_s is None:
            baseline = clang_cost(clang, root, commands)
        else:
            baseline = Cost(options.baseline_cpu_s, 0.0, 0.0)
        database = f"{folder}/bench.sqlite"
        scan = cost_of(scan_command(root, units, database, "--jobs", str(options.jobs)), environment)
        size_mib = sum(path.stat().st_size for path in Path(folder).glob("bench.sqlite*")) / 2**20
    ratio = scan.cpu_s / baseline.cpu_s
    print(f"{len(commands)} translation units of PyTorch 2.6.0      CPU s  elapsed s  peak MiB of a process")
    show("clang++ -fsyntax-only, one by one", baseline)
    show(f"opscanner scan, cold, {options.jobs} jobs", scan)
    print(f"ratio of CPU {ratio:.2f} (asked for: at most {MOST_OF_CLANG})   database {size_mib:.1f} MiB")
    return 0 if ratio <= MOST_OF_CLANG else 1


def show(title: str, cost: Cost) -> None:
    print(f"{title:34} {cost.cpu_s:11.1f}  {cost.elapsed_s:9.1f}  {cost.peak_mib:8.0f}")


def device_commands(root: Path, cache: Path, units: list[str]) -> list[ClangCommand]:
    """What a scan would hand to libclang for the device pass of ``units``."""
    tools = toolchain.find()
    wanted = {str(root / unit) for unit in units}
    found = [command for command in pytorch.synthesize(root, cache, tools).commands if command.file in wanted]
    if len(found) != len(wanted):
        missing = wanted - {command.file for command in found}
        sys.exit(f"no compile command for {', '.join(sorted(missing))}")
    return [translate(command, tools, "device") for command in found]


def clang_cost(clang: str, root: Path, commands: list[ClangCommand]) -> Cost:
    """Sum over the units, with clang's own builtin headers instead of libclang's.

    An error inside a header (CUB compares halves where PyTorch forbids it) ends no parse and passes; a fatal one does.
    """
    costs = []
    for command in commands:
        arguments = [*command.arguments, "-ferror-limit=0"]
        if "-resource-dir" in arguments:
            at = arguments.index("-resource-dir")
            del arguments[at : at + 2]
        with tempfile.TemporaryFile() as log:
            cost = cost_of([clang, *arguments, "-fsyntax-only", command.file], accepted=(0, 1), log=log)
            log.seek(0)
            said = log.read().decode(errors="replace")
        if fatal := re.search(r"^.*fatal error.*$", said, re.MULTILINE):
            sys.exit(f"clang did not parse all of {command.file}, so there is nothing to compare with: {fatal[0]}")
        name, errors = Path(command.file).relative_to(root), len(re.findall(r": error: ", said))
        print(f"  {cost.cpu_s:6.1f} s  {name}" + (f"  ({errors} errors)" if errors else ""), file=sys.stderr)
        costs.append(cost)
    return Cost(sum(c.cpu_s for c in costs), sum(c.elapsed_s for c in costs), max(c.peak_mib for c in costs))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make-headers"]:
        pytorch.synthesize(sys.argv[2], sys.argv[3], toolchain.find())
    else:
        sys.exit(main())
