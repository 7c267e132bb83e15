"""Operators that PyTorch's OpInfo database describes, as operators of the catalog: those that no table needs to hold.

They have no reference: results are held against the operator's own float64 run, and values stay in the range of
OpInfo's samples. Ids are ``opinfo:NAME:NUMBER``, and ``opinfo:NAME:NUMBER_grad`` of the gradient.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from types import ModuleType

from opscanner.errors import UsageError
from opscanner.frameworks.runners import is_installed
from opscanner.operators.catalog import Operator, load_catalog
from opscanner.operators.groups import module_group
from opscanner.operators.pairs import parse_inputs

PREFIX = "opinfo:"


def find_opinfo_operators(name: str, backward: bool = False) -> tuple[Operator, ...]:
    """The calls of operators that OpInfo knows.

    Parameters
    ----------
    name : str
        OpInfo's name (``nn.functional.pairwise_distance``), with ``torch.`` or :data:`PREFIX` before it or without, or
        a pattern as in a shell. A pattern means operators that no call of the catalog names: the rest have rows.
    backward : bool
        Add their gradients.

    Raises
    ------
    UsageError
        When OpInfo has no such operator, or of none a call that can be written down.
    OpscannerError
        When the database cannot be imported.
    """
    wanted = name.removeprefix(PREFIX)
    if re.search(r"[*?\[]", wanted):
        found = [one for one in fnmatch.filter(_reader().names(), wanted) if not in_catalog(one)]
    else:
        wanted = wanted.removeprefix("torch.")
        found = [one for one in _reader().names() if wanted == one or wanted in _reader().aliases_of(one)]
    operators = tuple(one for operator in found for one in _operators(operator))
    if not operators:
        why = f"of {', '.join(found)} no sample can be called by itself" if found else "there is no such operator"
        raise UsageError(f"PyTorch's OpInfo gives nothing for {wanted!r}: {why}", f"try {PREFIX}'*' for all")
    return tuple(one for one in operators if backward or one.direction == "forward")


def opinfo_operator(identifier: str) -> Operator:
    """The operator of an id.

    Raises
    ------
    UsageError
        When the release that is installed has no such sample.
    """
    name, _, _ = identifier.removeprefix(PREFIX).rpartition(":")
    for one in _operators(name):
        if one.id == identifier:
            return one
    raise UsageError(f"OpInfo of the torch that is installed gives no {identifier!r}", "name the operator without it")


def in_catalog(operator: str) -> bool:
    """True when a call of the catalog names an operator of OpInfo, by any of its names.

    >>> in_catalog("nn.functional.elu"), in_catalog("nn.functional.hinge_embedding_loss")
    (True, True)
    """
    return bool(_called() & _reader().aliases_of(operator))


def formats_of(operator: str, device: str, *, backward: bool = False) -> frozenset[str]:
    """Floating formats that PyTorch declares to support (see :mod:`opscanner.frameworks.pytorch.opinfo`)."""
    declared: frozenset[str] = _reader().formats_of(operator, device, backward=backward)
    return declared


@functools.cache
def by_call() -> dict[str, str]:
    """How calls name functions (``F.elu``, ``torch.special.i0``, ``aten.elu_backward``) to OpInfo's name of them."""
    found: dict[str, str] = {}
    for name in _reader().names():
        for alias in sorted(_reader().aliases_of(name)):
            path = "F." + alias.removeprefix("nn.functional.") if "nn.functional" in alias else f"torch.{alias}"
            found.setdefault(path, name)
    return found


@functools.cache
def _called() -> frozenset[str]:
    """What calls of the catalog name in torch, as OpInfo would: without ``torch.``, and ``nn.functional`` for ``F``."""
    found: set[str] = set()
    for one in load_catalog():
        for path in re.findall(r"(?<![\w.])(?:torch|F|aten)(?:\.\w+)+", one.calls.get("pytorch", "")):
            room, _, rest = path.partition(".")
            found.add(f"nn.functional.{rest}" if room == "F" else rest.partition(".")[0] if room == "aten" else rest)
        found.update(one.pair.aten if one.pair else ())
    return frozenset(found)


@functools.cache
def _operators(name: str) -> tuple[Operator, ...]:
    found = []
    for call in _reader().calls_of(name):
        forward = Operator(
            id=f"{PREFIX}{name}:{call.number}",
            direction="forward",
            kind=call.kind,
            module=module_group(name.rpartition(".")[2]),
            inputs=parse_inputs(call.inputs),
            calls={"pytorch": call.call},
            elementwise=call.elementwise,
            note="values of PyTorch's OpInfo",
        )
        found.append(forward)
        if call.gradient:
            found.append(
                Operator(
                    id=f"{forward.id}_grad",
                    direction="backward",
                    kind=f"{call.kind} gradient",
                    module=forward.module,
                    inputs=parse_inputs(call.gradient_inputs),
                    calls={"pytorch": call.gradient},
                    elementwise=call.elementwise,
                    note=forward.note,
                )
            )
    return tuple(found)


@functools.cache
def _reader() -> ModuleType:
    if not is_installed("pytorch"):
        raise UsageError("torch is not installed: its OpInfo database is not there", "pip install torch")
    import importlib

    return importlib.import_module("opscanner.frameworks.pytorch.opinfo")
