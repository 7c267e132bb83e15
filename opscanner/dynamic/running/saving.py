"""Calls that were told of, kept as files that can be called again.

A file is in the safetensors format: tensors and text, no code. The text holds the operator, its other arguments as
JSON, and what was seen. Of an operator that draws random numbers the random state before the call is kept too.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from opscanner import __version__
from opscanner.dynamic.running.calls import tensors_of
from opscanner.dynamic.running.random_state import RandomState
from opscanner.errors import OpscannerError
from opscanner.watched import AlertKind, Site

#: Bytes of one file's tensors, unless told otherwise.
MOST_BYTES = 64 << 20
_RANDOM = "random state of "
_WORDS = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}


@dataclass(frozen=True)
class SavedCall:
    """An operator's call read from a file.

    Parameters
    ----------
    operator : str
        Such as ``aten.addmm.default``.
    seen : dict
        Module, direction, message, mode and versions of the watch that wrote it, the device, and ``result``, a digest
        of the bits of each tensor that the call gave.
    random : dict
        Device type -> torch's random state before the call; empty unless the operator may draw random numbers.
    """

    operator: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    seen: dict[str, Any]
    random: dict[str, torch.Tensor] = field(default_factory=dict)


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
    unmoved : set of int
        Addresses of memory that the watch does not perturb; a replay must know which tensors they are.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int = 8,
        most_bytes: int = MOST_BYTES,
        settings: Mapping[str, Any] | None = None,
        unmoved: AbstractSet[int] = frozenset(),
    ) -> None:
        self._folder = folder
        self._limit = limit
        self._most_bytes = most_bytes
        self._settings = dict(settings or {})
        self._unmoved = unmoved
        self._written: set[int] = set()

    def save(
        self,
        site: Site,
        operator: Any,
        call: tuple[Any, Any],
        kind: AlertKind,
        message: str,
        *,
        result: Any = None,
        random: RandomState | None = None,
    ) -> str:
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
        try:
            return str(self._write(site, operator, call, kind, message, result, random))
        except (OpscannerError, OSError, RuntimeError, SafetensorError) as error:  # no reason to end the model's run
            site.notes.append(f"inputs not saved: {type(error).__name__}: {str(error).splitlines()[0]}")
            return ""

    def _write(
        self,
        site: Site,
        operator: Any,
        call: tuple[Any, Any],
        kind: AlertKind,
        message: str,
        result: Any,
        random: RandomState | None,
    ) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(
            r"[^\w.-]+", "_", f"{len(self._written):02d}_{site.module}_{site.operator}_{site.direction.value}"
        )
        path = self._folder / f"{name}.safetensors"
        tensors = list(tensors_of(*call))
        unmoved = [place for place, one in enumerate(tensors) if one.untyped_storage().data_ptr() in self._unmoved]
        seen = {
            **self._settings, "site": site.name, "kind": kind.value, "message": message, "location": site.location,
            "device": next((str(one.device) for one in tensors), "cpu"), "unmoved": unmoved,
            "result": [digest(one) for one in tensors_of((result,))],
        }  # fmt: skip
        write_call(path, str(operator), call[0], call[1], seen, random=random.saved() if random else {})
        return path


def write_call(
    path: Path,
    operator: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    seen: Mapping[str, Any],
    *,
    random: Mapping[str, torch.Tensor] | None = None,
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
    tensors |= {f"{_RANDOM}{kind}": state for kind, state in (random or {}).items()}
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
    random = {name.removeprefix(_RANDOM): one.cpu() for name, one in tensors.items() if name.startswith(_RANDOM)}
    try:
        args, kwargs = json.loads(about["arguments"])
        reading = _Reading(tensors, device)
        return SavedCall(
            about["operator"],
            tuple(reading.value(args)),
            {name: reading.value(one) for name, one in kwargs["words"].items()},
            {**json.loads(about.get("seen", "{}")), "torch": about.get("torch", "")},
            random,
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        raise OpscannerError(
            f"{path} is damaged: its text and its tensors do not fit ({type(error).__name__}: {error})",
            "save the call again",
        ) from error


def digest(tensor: torch.Tensor) -> str:
    """A short digest of a tensor's format, shape and bits."""
    plain = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else b""
    return hashlib.sha256(f"{plain.dtype} {list(plain.shape)}".encode() + bytes(data)).hexdigest()[:32]


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


class _Reading:
    """Arguments made again; a tensor that was given twice is one tensor."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], device: str) -> None:
        self._tensors, self._device = tensors, device
        self._laid_out: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}

    def value(self, value: Any) -> Any:
        """An argument of its JSON."""
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return self._tensor(value["tensor"], tuple(value["strides"]))
        if "words" in value:
            return {name: self.value(one) for name, one in value["words"].items()}
        if "float" in value:
            return float(value["float"])
        if "complex" in value:
            return complex(*value["complex"])
        if "device" in value:
            return torch.device(self._device)
        word, name = next(iter(value.items()))
        found = getattr(torch, name, None)
        if word not in _WORDS.values() or not isinstance(found, tuple(_WORDS)):
            raise OpscannerError(
                f"unknown kind of argument {word!r}: {name}", "the file was written by another release"
            )
        return found

    def _tensor(self, name: str, strides: tuple[int, ...]) -> torch.Tensor:
        found = self._laid_out.get((name, strides))
        if found is None:
            found = self._laid_out[name, strides] = _with_strides(self._tensors[name], strides)
        return found


def _with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A tensor laid out as the one that was saved; one that shared elements (stride 0) is laid out in full."""
    if tensor.stride() == strides or 0 in strides or not tensor.numel():
        return tensor
    size = 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, strides, strict=True))
    if size > 4 * tensor.numel():  # a slice of something much larger
        return tensor
    return tensor.new_empty(size).as_strided(tensor.shape, strides).copy_(tensor)
