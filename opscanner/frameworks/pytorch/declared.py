"""PyTorch's own lists: ``native_functions.yaml`` (operators and who serves them), ``derivatives.yaml`` (gradients)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from opscanner.frameworks.declarations import DeclaredOperator, Device

#: What a file that is no such list raises.
YamlError = yaml.YAMLError
NATIVE_FUNCTIONS = "aten/src/ATen/native/native_functions.yaml"
DERIVATIVES = "tools/autograd/derivatives.yaml"
#: Where a wheel keeps both: in torchgen, beside the package whose ``include`` is scanned.
PACKAGED = "torchgen/packaged"
_SIGNATURE = re.compile(r"(?:(\w+)::)?(\w+)(?:\.(\w+))?\((.*)\)\s*->", re.DOTALL)
_BACKWARD = re.compile(r"(?<=\w)_backward(?=_|$)|(?<!requires)(?<!retain)(?<!retains)_grad$")
_CALLED = re.compile(r"(?<![\w.])(?:at::)?(\w+)\s*\(")
#: Backward operators whose name does not begin with their forward operator's: that of derivatives.yaml is found there.
_SUFFIXES = re.compile(r"(?:_symint|_overrideable|_out)$")


class Lists(NamedTuple):
    """Where a release keeps its lists and its kernels, as a scan names files: absolute where outside of the root."""

    functions: str
    derivatives: str
    kernels: str


def lists(root: Path) -> Lists:
    """The lists of a checkout; of the headers of an installed torch, those of its torchgen."""
    packaged = root.parent.parent / PACKAGED
    functions = packaged / "ATen/native/native_functions.yaml"
    if not (root / NATIVE_FUNCTIONS).is_file() and functions.is_file():
        return Lists(str(functions), str(packaged / "autograd/derivatives.yaml"), "ATen/native")
    return Lists(NATIVE_FUNCTIONS, DERIVATIVES, "aten/src/ATen/native")


class Dispatch(NamedTuple):
    """A function that serves an overload under a dispatch key."""

    key: str
    function: str
    line: int


class NativeFunction(NamedTuple):
    """An entry of native_functions.yaml."""

    name: str  #: as written: ``elu_``
    operator: str  #: of whom it is an overload: ``elu``
    overload: str
    line: int
    structured: bool
    dispatch: tuple[Dispatch, ...]


def operator_name(name: str) -> str:
    """The operator that an in-place variant belongs to: ``elu_`` to ``elu``; ``__ior__`` is its own.

    >>> operator_name("elu_"), operator_name("__ior__"), operator_name("_foreach_add_")
    ('elu', '__ior__', '_foreach_add')
    """
    return name if name.endswith("__") else name.removesuffix("_")


def device_of(key: str) -> Device | None:
    """Device of a dispatch key; none for devices that nobody scans here (MPS, XPU ...) and for shapes alone (Meta)."""
    if key.startswith("Composite"):
        return "any"
    if key.endswith("CUDA"):
        return "cuda"
    return "cpu" if key.endswith("CPU") else None


class _LinedLoader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Keeps the line of every mapping under ``__line__``, and of each of its keys under ``__lines__``."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    found = {loader.construct_object(key): loader.construct_object(value, deep=True) for key, value in node.value}
    found["__line__"] = node.start_mark.line + 1
    found["__lines__"] = {key.value: key.start_mark.line + 1 for key, _ in node.value}
    return found


_LinedLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _load(path: Path) -> Any:
    # The loader is a safe one: it makes plain values only.
    return yaml.load(path.read_text(encoding="utf-8", errors="replace"), Loader=_LinedLoader)  # noqa: S506


def native_functions(path: Path) -> Iterator[NativeFunction]:
    """The entries of native_functions.yaml, in order."""
    for entry in _load(path):
        signature = _SIGNATURE.match(entry["func"])
        if signature is None:
            continue
        name, overload, arguments = signature[2], signature[3] or "", signature[4]
        yield NativeFunction(
            name,
            operator_name(name),
            overload,
            entry["__line__"],
            bool(entry.get("structured")),
            tuple(_dispatch(entry, name, arguments)),
        )


def _dispatch(entry: dict[str, Any], name: str, arguments: str) -> Iterator[Dispatch]:
    table = entry.get("dispatch")
    if table is None:
        if "structured_delegate" not in entry and "ufunc_inner_loop" not in entry:
            out = name + "_out" if re.search(r"\*.*\(\w+!\)\s*\w+", arguments) else name
            yield Dispatch("CompositeImplicitAutograd", out, entry["__line__"])
        return
    for keys, function in table.items():
        if keys in ("__line__", "__lines__"):
            continue
        for key in str(keys).split(","):
            yield Dispatch(key.strip(), str(function).split("::")[-1], table["__lines__"].get(keys, entry["__line__"]))


def operators(
    functions: list[NativeFunction], derivatives: dict[str, str], file: str = NATIVE_FUNCTIONS
) -> dict[str, DeclaredOperator]:
    """The operators of these entries, gradients with the operator that they are the gradient of."""
    first: dict[str, NativeFunction] = {}
    for function in functions:
        if function.operator not in first or (function.name == function.operator and not function.overload):
            first[function.operator] = function
    found = {}
    for name, function in first.items():
        forward = forward_name(name, first.keys(), derivatives)
        direction = "backward" if forward != name or _BACKWARD.search(name) else "forward"
        found[name] = DeclaredOperator(name, forward, direction, file, function.line)  # type: ignore[arg-type]
    return found


def forward_name(name: str, known: Any, derivatives: dict[str, str]) -> str:
    """Of a backward operator the forward one; of others their own name."""
    if not _BACKWARD.search(name):
        return name
    base = name[: re.search(_BACKWARD, name).start()]  # type: ignore[union-attr]
    if name in derivatives and not any(candidate in known for candidate in (base, base.lstrip("_"), f"_{base}")):
        return derivatives[name]
    while base.strip("_"):
        for candidate in (base, base.lstrip("_"), f"_{base}"):
            if candidate in known:
                return candidate
        base = base.rpartition("_")[0]
    return name


def backward_calls(path: Path) -> dict[str, str]:
    """For each backward operator that formulas of derivatives.yaml call, the operator whose gradient calls it first."""
    found: dict[str, str] = {}
    if not path.is_file():
        return found
    for entry in _load(path):
        signature = _SIGNATURE.match(str(entry.get("name", "")) + " ->") or re.match(
            r"(\w+)", str(entry.get("name", ""))
        )
        if signature is None:
            continue
        name = operator_name(re.match(r"\w+", str(entry["name"]))[0])  # type: ignore[index]
        formulas = " ".join(
            str(value) for key, value in entry.items() if not str(key).startswith("__") and key != "name"
        )
        for called in _CALLED.findall(formulas):
            called = _SUFFIXES.sub("", called)
            if _BACKWARD.search(called) and not _BACKWARD.search(name):
                found.setdefault(called, name)
    return found
