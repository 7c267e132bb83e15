"""Calls that were told of, kept as files that can be called again.

A file is in the safetensors format: tensors and text, no code. The text holds the operator, its other arguments as
JSON, and what was seen.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from opscanner import __version__
from opscanner.dynamic.running.calls import tensors_of
from opscanner.errors import OpscannerError
from opscanner.watched import AlertKind, Site

#: Bytes of one file's tensors, unless told otherwise.
MOST_BYTES = 64 << 20
_WORDS = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}


@dataclass(frozen=True)
class SavedCall:
    """An operator's call read from a file.

    Parameters
    ----------
    operator : str
        Such as ``aten.addmm.default``.
    seen : dict
        Module, direction, message, mode and versions of the watch that wrote it.
    """

    operator: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    seen: dict[str, Any]


class CallSaver:
    """Writes calls into a folder: one of each site, and at most a number of them.

    Parameters
    ----------
    folder : Path
        Made when the first call is written.
    limit : int
        Files at most.
    most_bytes : int
        Calls with larger tensors are not kept; the alert says so.
    settings : dict
        What is kept beside each call, such as the mode and seed of the watch.
    """

    def __init__(
        self, folder: Path, *, limit: int = 8, most_bytes: int = MOST_BYTES, settings: Mapping[str, Any] | None = None
    ) -> None:
        self._folder = folder
        self._limit = limit
        self._most_bytes = most_bytes
        self._settings = dict(settings or {})
        self._written: set[int] = set()

    def save(self, site: Site, operator: Any, call: tuple[Any, Any], kind: AlertKind, message: str) -> str:
        """Writes a call, and gives the path; empty when it is not kept."""
        if len(self._written) >= self._limit or id(site) in self._written:
            return ""
        size = sum(one.numel() * one.element_size() for one in tensors_of(*call))
        if size > self._most_bytes:
            note = f"inputs not saved: {size >> 20} MiB, at most {self._most_bytes >> 20} are (save_bytes)"
            if note not in site.notes:
                site.notes.append(note)
            return ""
        self._written.add(id(site))
        self._folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(
            r"[^\w.-]+", "_", f"{len(self._written):02d}_{site.module}_{site.operator}_{site.direction.value}"
        )
        path = self._folder / f"{name}.safetensors"
        seen = {**self._settings, "site": site.name, "kind": kind.value, "message": message, "location": site.location}
        write_call(path, str(operator), call[0], call[1], seen)
        return str(path)


def write_call(
    path: Path, operator: str, args: Sequence[Any], kwargs: Mapping[str, Any], seen: Mapping[str, Any]
) -> None:
    """Writes a call to a file; whole or not at all.

    Raises
    ------
    OpscannerError
        For an argument that is neither a tensor nor a plain value.
    """
    tensors: dict[str, torch.Tensor] = {}
    names: dict[int, str] = {}
    arguments = json.dumps([_as_json(list(args), tensors, names), _as_json(dict(kwargs), tensors, names)])
    about = {
        "opscanner": __version__,
        "torch": torch.__version__,
        "operator": operator,
        "arguments": arguments,
        "seen": json.dumps(dict(seen)),
    }
    partial = path.with_suffix(".partial")
    save_file(tensors or {"nothing": torch.zeros(0)}, str(partial), metadata=about)
    partial.replace(path)


def read_call(path: str | Path, device: str = "cpu") -> SavedCall:
    """Reads a call.

    Raises
    ------
    OpscannerError
        When the file is missing, is none of these files, or is damaged.
    """
    try:
        with safe_open(str(path), framework="pt", device=device) as stored:
            about = stored.metadata() or {}
            if "operator" not in about or "arguments" not in about:
                raise OpscannerError(f"{path} holds no call of an operator", "give a file that a watch saved")
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise OpscannerError(f"{path} cannot be read: {error}", "give a file that a watch saved") from error
    args, kwargs = json.loads(about["arguments"])
    return SavedCall(
        about["operator"],
        tuple(_from_json(args, tensors)),
        _from_json(kwargs, tensors),
        {**json.loads(about.get("seen", "{}")), "torch": about.get("torch", "")},
    )


def _as_json(value: Any, tensors: dict[str, torch.Tensor], names: dict[int, str]) -> Any:
    match value:
        case torch.Tensor():
            name = names.get(id(value))
            if name is None:
                name = names[id(value)] = f"t{len(tensors)}"
                tensors[name] = value.detach().to("cpu", copy=True).contiguous()
            return {"tensor": name, "strides": list(value.stride())}
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else {"float": str(value)}
        case complex():
            return {"complex": [value.real, value.imag]}
        case list() | tuple():
            return [_as_json(one, tensors, names) for one in value]
        case dict():
            return {"words": {name: _as_json(one, tensors, names) for name, one in value.items()}}
        case torch.device():
            return {"device": str(value)}
    for kind, word in _WORDS.items():
        if isinstance(value, kind):
            return {word: str(value).removeprefix("torch.")}
    raise OpscannerError(f"an argument of type {type(value).__name__} cannot be saved", "report the operator")


def _from_json(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_from_json(one, tensors) for one in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return _with_strides(tensors[value["tensor"]], tuple(value["strides"]))
    if "words" in value:
        return {name: _from_json(one, tensors) for name, one in value["words"].items()}
    if "float" in value:
        return float(value["float"])
    if "complex" in value:
        return complex(*value["complex"])
    if "device" in value:
        return torch.device("cpu")
    word, name = next(iter(value.items()))
    if word not in _WORDS.values():
        raise OpscannerError(f"unknown kind of argument {word!r}", "the file was written by another release")
    return getattr(torch, name)


def _with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A tensor laid out as the one that was saved; one that shared elements (stride 0) is laid out in full."""
    if tensor.stride() == strides or 0 in strides or not tensor.numel():
        return tensor
    size = 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, strides, strict=True))
    if size > 4 * tensor.numel():  # a slice of something much larger
        return tensor
    return tensor.new_empty(size).as_strided(tensor.shape, strides).copy_(tensor)
