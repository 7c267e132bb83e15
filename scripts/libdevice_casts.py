#!/usr/bin/env python3
"""Which functions of CUDA's libdevice change precision inside? Prints ``name: from -> to, ...``, a function a line.

usage: libdevice_casts.py LIBDEVICE.10.bc [LLVM-DIS]

Reads the disassembly, calls between the functions followed. ``LIBDEVICE_NARROWS`` in
``opscanner/frameworks/functions.py`` holds those that narrow and do not widen.
"""

from __future__ import annotations

import collections
import re
import subprocess
import sys

_DEFINITION = re.compile(r"define .*? @(\w+)\(")
_CAST = re.compile(r"= (?:fpext|fptrunc) (\w+) .* to (\w+)")
_CALL = re.compile(r"call .*?@(\w+)\(")


def main(bitcode: str, disassembler: str = "llvm-dis") -> None:
    command = [disassembler, bitcode, "-o", "-"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    casts: dict[str, set[tuple[str, str]]] = collections.defaultdict(set)
    calls: dict[str, set[str]] = collections.defaultdict(set)
    name = ""
    for line in text.splitlines():
        if definition := _DEFINITION.match(line):
            name = definition[1]
        casts[name] |= set(_CAST.findall(line))
        calls[name] |= set(_CALL.findall(line))
    for function in sorted(name for name in casts if name.startswith("__nv_")):
        reached, waiting = {function}, [function]
        while waiting:
            fresh = calls[waiting.pop()] - reached
            reached |= fresh
            waiting += fresh
        found = set().union(*(casts[callee] for callee in reached if callee in casts))
        if found:
            print(f"{function}: {', '.join(f'{source} -> {target}' for source, target in sorted(found))}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
