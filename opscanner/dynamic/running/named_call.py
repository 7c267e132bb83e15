"""A saved call with names: its tensors as arrays, and the call made again of other arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from opscanner.dynamic.oracle.namespace import reference_names
from opscanner.dynamic.running.calls import is_float, replaced
from opscanner.dynamic.running.kinds import Kind, base_name, kind_of
from opscanner.dynamic.running.saving import SavedCall
from opscanner.dynamic.running.truth import named
from opscanner.errors import OpscannerError

Arrays = dict[str, np.ndarray]


class NamedCall:
    """A call of an operator, its arguments by the names of ATen's schema (``self`` is called ``x``).

    Parameters
    ----------
    operator : torch._ops.OpOverload
        As :func:`operator_of` finds it.
    """

    def __init__(self, operator: Any, saved: SavedCall) -> None:
        self.operator = operator
        self.args, self.kwargs = saved.args, saved.kwargs
        self._names: dict[int, str] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        for name, value in self._given():
            self._name_tensors(name, value)

    def _given(self) -> Iterator[tuple[str, Any]]:
        names = [one.name for one in self.operator._schema.arguments]
        yield from zip(names, self.args, strict=False)
        yield from self.kwargs.items()

    def _name_tensors(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._names:
                taken = "x" if name == "self" else f"{name}_" if name in reference_names() else name
                self._names[id(value)] = taken
                self.tensors[taken] = value
        elif isinstance(value, (list, tuple)):
            for place, one in enumerate(value):
                self._name_tensors(f"{name}_{place}", one)

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments by name, defaults filled in; in the place of each tensor its name."""
        found = {one.name: one.default_value for one in self.operator._schema.arguments if one.has_default_value()}
        return found | {name: self.argument_names(value) for name, value in self._given()}

    def argument_names(self, value: Any) -> Any:
        """An argument with names in the places of tensors (:func:`~opscanner.dynamic.running.truth.named`)."""
        if isinstance(value, torch.Tensor):
            return named(self._names[id(value)])
        if isinstance(value, (list, tuple)):
            return [self.argument_names(one) for one in value]
        return value

    def arrays(self) -> Arrays:
        """Values of the tensors: of floating point as float64, of others in their own format."""
        return {name: as_array(one) for name, one in self.tensors.items()}

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> SavedCall:
        """The call with other values and shapes; sizes among the arguments follow the shapes."""
        made = {
            name: torch.from_numpy(np.array(arrays[name])).to(dtype=one.dtype, device=one.device)
            for name, one in self.tensors.items()
        }
        change: Callable[[torch.Tensor], torch.Tensor] = lambda one: made[self._names[id(one)]]  # noqa: E731
        args, kwargs = replaced(list(self.args), change), replaced(dict(self.kwargs), change)
        _follow_shapes(base_name(self.operator), args)
        return SavedCall(str(self.operator), tuple(args), kwargs, {})


def _follow_shapes(name: str, args: list[Any]) -> None:
    """Sizes that a schema asks for beside the tensors that have them."""
    if name in ("native_layer_norm", "_fused_rms_norm"):
        args[1] = list(args[0].shape[-len(args[1]) :])
    elif name == "convolution_backward" and args[3] is not None and not args[7]:  # bias_sizes; not transposed
        args[3] = [args[2].shape[0]]
    elif name == "native_group_norm":  # input, weight, bias, N, C, HxW, group, eps
        shape = args[0].shape
        args[3], args[4], args[5] = shape[0], shape[1], int(np.prod(shape[2:]))


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's values; floats as float64, which holds them exactly."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if plain.is_floating_point():
        plain = plain.double()
    found: np.ndarray = plain.to(torch.complex128).numpy() if plain.is_complex() else plain.numpy()
    return found


def operator_of(name: str, path: str) -> Any:
    """The operator of a saved call.

    Raises
    ------
    OpscannerError
        When this torch has no such operator, or it is none that a watch saves.
    """
    parts = name.split(".")
    found: Any = torch.ops
    try:
        for part in parts:
            found = getattr(found, part)
    except (AttributeError, RuntimeError):
        found = None
    if not isinstance(found, torch._ops.OpOverload):
        where = "" if parts[0] in ("aten", "prims") else f"import the library that registers {parts[0]} operators, or "
        raise OpscannerError(
            f"{path} holds a call of {name}, which torch {torch.__version__} does not have",
            f"{where}replay it with the torch that saved it",
        )
    if kind_of(found) is not Kind.ROUNDS:
        raise OpscannerError(f"{path} holds a call of {name}, which a watch saves none of", "give a watch's own file")
    return found


def has_floats(call: NamedCall) -> bool:
    """True for calls with a tensor that rounding concerns: a watch saves no others."""
    return any(is_float(one) for one in call.tensors.values())
