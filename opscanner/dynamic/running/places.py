"""Where in a model a call is made: the module whose code runs, for the backward pass too, and the line of that code.

Modules are followed by torch's global module hooks. Hooks of a module itself would switch off the fast path of
``nn.TransformerEncoderLayer``, which looks for them (torch.nn.modules.transformer, ``why_not_sparsity_fast_path``).
A call of the backward pass belongs to the module that was running when its autograd node was made; nodes are
numbered in the order of the forward pass (``torch.autograd._get_sequence_nr``).
"""

from __future__ import annotations

import bisect
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch
from torch.nn.modules import module as hooks

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: Bounds of autograd numbers that are kept; beyond it the older half is forgotten (a step of a large model has 10,000).
_MOST_BOUNDS = 1 << 20
_NO_NODE = (1 << 64) - 1


class Frame:
    """A module that is running: its path, and how often each operator was called in this call of it."""

    __slots__ = ("counts", "module", "path")

    def __init__(self, module: torch.nn.Module | None, path: str) -> None:
        self.module = module
        self.path = path
        self.counts: Counter[Any] = Counter()

    @property
    def is_outside(self) -> bool:
        """True for the frame of code that belongs to no module."""
        return self.module is None and not self.path


class ModulePlaces:
    """Follows which module is running.

    Parameters
    ----------
    models : iterable of torch.nn.Module
        Their submodules are named by ``named_modules``. Other modules are named by their class.

    Attributes
    ----------
    stack : list of Frame
        The running modules; the first stands for code outside of any.
    steps : int
        Calls of outermost modules.
    parameters : set of int
        Addresses of the memory that the parameters of all modules seen are in.
    """

    def __init__(self, models: Iterable[torch.nn.Module] = ()) -> None:
        self._paths: dict[int, str] = {}
        self._named: list[torch.nn.Module] = []  # kept, so that no id is given twice
        self.parameters: set[int] = set()
        for model in models:
            self._know_parameters(model)
            for path, module in model.named_modules():
                self._paths.setdefault(id(module), path or type(module).__name__)
                self._named.append(module)
        self.stack: list[Frame] = [Frame(None, "")]
        self.steps = 0
        self._bounds: list[int] = []
        self._owners: list[tuple[str, str]] = []
        self._backward_frames: dict[tuple[str, str], Frame] = {}
        self._handles: list[Any] = []
        self._thread = threading.get_ident()

    def start(self) -> None:
        """Hooks in; modules that other threads run are none of this watch's."""
        self._thread = threading.get_ident()
        self._handles = [
            hooks.register_module_forward_pre_hook(self._entered),
            hooks.register_module_forward_hook(self._left, always_call=True),
        ]

    def stop(self) -> None:
        """Takes the hooks out."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def path_of(self, module: torch.nn.Module) -> str:
        """The path that a module is named by; its class for one that belongs to no model."""
        known = self._paths.get(id(module))
        if known is None:
            known = type(module).__name__
            self._paths[id(module)] = known
            self._named.append(module)
            self._know_parameters(module)
            for path, inner in module.named_modules():
                if path and id(inner) not in self._paths:
                    self._paths[id(inner)] = f"{known}.{path}"
                    self._named.append(inner)
        return known

    def _know_parameters(self, module: torch.nn.Module) -> None:
        self.parameters.update(one.untyped_storage().data_ptr() for one in module.parameters())

    def current(self) -> tuple[Frame, bool]:
        """The running module, and whether this is the backward pass of it."""
        if len(self.stack) == 1:
            node = torch._C._current_autograd_node()
            if node is not None:
                return self._backward_frame(node), True
        return self.stack[-1], False

    def _entered(self, module: torch.nn.Module, inputs: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if len(self.stack) == 1 and torch._C._current_autograd_node() is None:
            self.steps += 1
            self._backward_frames.clear()
        frame = Frame(module, self.path_of(module))
        self.stack.append(frame)
        self._bound(frame)

    def _left(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        while len(self.stack) > 1:  # a module that raised without its hook being called leaves frames above
            if self.stack.pop().module is module:
                break
        self._bound(self.stack[-1])

    def _bound(self, frame: Frame) -> None:
        number = torch.autograd._get_sequence_nr()
        owner = (frame.path, type(frame.module).__name__ if frame.module is not None else "")
        if self._bounds and self._bounds[-1] >= number:
            if self._bounds[-1] == number:
                self._owners[-1] = owner
            return
        self._bounds.append(number)
        self._owners.append(owner)
        if len(self._bounds) > _MOST_BOUNDS:
            del self._bounds[: _MOST_BOUNDS // 2], self._owners[: _MOST_BOUNDS // 2]

    def _backward_frame(self, node: Any) -> Frame:
        """The frame of the module that made an autograd node; one of no module where that is not known."""
        number = node._sequence_nr()
        place = bisect.bisect_right(self._bounds, number) - 1 if number != _NO_NODE else -1
        owner = self._owners[place] if place >= 0 else ("", "")
        frame = self._backward_frames.get(owner)
        if frame is None:
            frame = self._backward_frames[owner] = Frame(None, owner[0])
        return frame


def location() -> str:
    """``file:line`` of the innermost frame that is neither torch's nor of this package; empty when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_TORCH, _HERE, "<")):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
