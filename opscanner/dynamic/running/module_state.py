"""What a module is and keeps: told from outside, and put back after a second run of its code."""

from __future__ import annotations

import contextlib
import enum
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from opscanner.dynamic.running.calls import tensors_of

#: torch's own modules are said to be in ``torch/nn/...``.
_ABOVE_TORCH = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))) + os.sep
#: Attributes of a module that torch itself keeps apart: what is left is the module's own state.
_OF_TORCH = frozenset(vars(torch.nn.Module()))
#: Arguments that a second run does not change.
_WITHOUT_STATE = (torch.Tensor, torch.dtype, torch.device, torch.Generator, enum.Enum)


def holds_dictionary(words: Mapping[str, Any]) -> bool:
    """True for a keyword argument that holds tensors by name: what it held before the call is not known."""
    return any(isinstance(one, dict) and next(tensors_of((one,)), None) is not None for one in words.values())


def may_change(values: Sequence[Any]) -> bool:
    """True where an argument is an object with a state, such as a cache of keys: a second run would change it."""
    for value in values:
        if isinstance(value, (list, tuple)):
            if may_change(value):
                return True
        elif isinstance(value, dict):
            if may_change(tuple(value.values())):
                return True
        elif not isinstance(value, _WITHOUT_STATE) and not callable(value) and hasattr(value, "__dict__"):
            return True
    return False


@contextlib.contextmanager
def calls_answered(modules: Sequence[torch.nn.Module], answer: Callable[..., Any]) -> Iterator[None]:
    """Calls of these modules give what ``answer`` says; as FX's tracer does (torch.fx._symbolic_trace)."""
    answering = {id(one) for one in modules}
    original, thread = torch.nn.Module.__call__, threading.get_ident()

    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        ours = threading.get_ident() == thread and id(module) in answering
        return answer(module, args, kwargs) if ours else original(module, *args, **kwargs)

    torch.nn.Module.__call__ = call
    try:
        yield
    finally:
        torch.nn.Module.__call__ = original


@contextlib.contextmanager
def state_kept(root: torch.nn.Module) -> Iterator[None]:
    """Puts back the attributes that a second run sets, such as a cache of keys and values, or a counter."""
    earlier = [(module, _own_attributes(module)) for module in root.modules()]
    copies = [
        (value, value.copy())
        for _, attributes in earlier
        for value in attributes.values()
        if isinstance(value, (list, dict, set))
    ]
    try:
        yield
    finally:
        for module, attributes in earlier:
            for name in _own_attributes(module).keys() - attributes.keys():
                del module.__dict__[name]
            module.__dict__.update(attributes)
        for value, copy in copies:
            if isinstance(value, list):
                value[:] = copy
            else:
                value.clear()
                value.update(copy)


def _own_attributes(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _OF_TORCH}


def defined_at(kind: type) -> str:
    """``file:line`` of a module class's forward."""
    if issubclass(kind, torch.jit.ScriptModule):
        return ""
    try:
        function = inspect.unwrap(kind.forward)  # type: ignore[attr-defined]
        source = str(inspect.getsourcefile(function)).removeprefix(_ABOVE_TORCH)
        return f"{source}:{inspect.getsourcelines(function)[1]}"
    except (TypeError, OSError):
        return ""
