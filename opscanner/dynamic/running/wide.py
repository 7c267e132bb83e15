"""The same code run in a wider format, whatever formats it names: the second, better result of a layer or a model.

:func:`widened` is a dispatch mode below autograd and autocast, so that it sees every cast that is made, autocast's
among them, and every operator as its kernel is called. What it does to each:

- Tensors of narrower floating-point formats that come from outside are cast up where they are computed with.
- A narrower ``dtype`` argument is the wide one: ``x.half()``, ``x.to(torch.bfloat16)``, ``torch.zeros(...,
  dtype=torch.float16)``, ``softmax(x, dtype=torch.float32)``, ``x.type_as(y)``. Where none is given it is torch's
  default format, which is the wide one meanwhile.
- A narrower result is cast up.
- Views stay views, and a tensor from outside that is written to keeps its format: computed wide, then rounded into it.
- Random numbers are drawn in the format that the plain run draws them in, then cast up. Measured on a CPU (torch
  2.13): ``bernoulli_(p)``, which dropout calls, gives the same mask in every format, but ``rand`` and ``randn`` draw
  other numbers in float64 than in the narrower formats, and ``randn`` leaves the generator elsewhere after bfloat16
  than after float32.
- Bit patterns of a wide number (``x.view(torch.int16)``) mean something else: refused, by name.

Integers and booleans stay, and so do formats that do not fit into the wide one (float64 inside ``widened(float32)``;
float16 inside ``widened(bfloat16)``). What Python code sees is not changed: a branch on ``x.dtype == torch.float16``
goes another way, and ``torch.finfo(x.dtype)`` tells of the wide format, which is what masks need. What a dispatch mode
does not see, it cannot widen: numpy on ``x.numpy()``, kernels called past the dispatcher, and literals that Python
rounds first (``torch.tensor(0.1, dtype=torch.float16)`` is the float16 number 0.1, cast up). A backward pass is
computed wide as well, to leaves that are wide; autograd refuses a wide gradient for a narrow one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules import module as module_hooks
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from opscanner.dynamic.running.calls import once, replaced, tensors_of
from opscanner.dynamic.running.kinds import base_name, written_tensors
from opscanner.errors import OpscannerError, UsageError
from opscanner.precision.formats import COMPLEX_PARTS, FORMATS, part_format

#: The format one wider, in precision: float32 holds what float16 and bfloat16 hold, and float64 what float32 holds.
ONE_WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64"} | {
    name: "float32" for name in FORMATS if name.startswith("float8")
}

#: Operators that give random numbers of the format they are given, and compute nothing else.
_DRAWS = frozenset({
    "bernoulli", "bernoulli_", "binomial", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial",
    "normal", "normal_", "poisson", "rand", "rand_like", "randn", "randn_like", "uniform_", "_standard_gamma",
    "_sample_dirichlet",
})  # fmt: skip

#: Operators that change what a tensor is, or hand on its values: nothing to compute, so nothing to widen.
_HANDED_ON = frozenset({"copy_", "set_", "resize_", "resize_as_", "detach_", "_local_scalar_dense", "record_stream"})


class WideRefusedError(OpscannerError, RuntimeError):
    """An operator that cannot do in the wide format what it does in the narrow one."""


def wide_format(format_: str) -> str:
    """The name of the format one wider, complex ones by their parts.

    Raises
    ------
    UsageError
        When nothing wider is known: torch computes in nothing beyond float64.

    >>> wide_format("bfloat16"), wide_format("complex64")
    ('float32', 'complex128')
    """
    wide = ONE_WIDER.get(part_format(format_))
    if wide is None:
        raise UsageError(f"no format one wider than {format_} is known", "float16, bfloat16 or float32")
    if format_ in COMPLEX_PARTS:
        return next(name for name, part in COMPLEX_PARTS.items() if part == wide)
    return wide


def name_of(dtype: torch.dtype) -> str:
    """``float16`` of ``torch.float16``."""
    return str(dtype).removeprefix("torch.")


@functools.cache
def widened_dtype(dtype: torch.dtype, to: torch.dtype) -> torch.dtype:
    """What a format is when everything is computed in ``to``: itself where ``to`` does not hold it, and integers.

    >>> widened_dtype(torch.complex64, torch.float64), widened_dtype(torch.int8, torch.float64)
    (torch.complex128, torch.int8)
    """
    part = FORMATS.get(part_format(name_of(dtype)))
    wide = FORMATS[name_of(to)]
    if part is None or part == wide or not wide.holds(part):
        return dtype
    if not dtype.is_complex:
        return to
    names = {part: name for name, part in COMPLEX_PARTS.items()}
    return getattr(torch, names[wide.name]) if wide.name in names else dtype


@contextmanager
def widened(to: torch.dtype, *, drawn: torch.dtype | None = None) -> Iterator[None]:
    """Inside, code computes in the format ``to`` although it says otherwise; see the top of this module.

    Torch's default format is ``to`` meanwhile, if that is wider, in the whole process; autocast is off, but regions
    that are entered inside are entered, and cast to ``to``. :func:`run_wide` also casts inputs and parameters before
    code looks at them, which some layers do (``nn.LSTM`` refuses inputs of another format than its weights').

    Parameters
    ----------
    to : torch.dtype
        A real floating-point format.
    drawn : torch.dtype, optional
        The format in which the plain run draws the random numbers that this one is asked for in ``to``
        (``randn_like(x)``, ``rand(n, dtype=x.dtype)``, dropout); by default they are drawn in ``to``.

    Raises
    ------
    WideRefusedError
        From inside, when an operator has no kernel for ``to``, or sees bit patterns: the message names it.
    """
    if name_of(to) not in FORMATS:
        raise UsageError(f"{to} is no real floating-point format to compute in", "torch.float32 or torch.float64")
    default = torch.get_default_dtype()
    devices = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    cached = torch.is_autocast_cache_enabled()
    try:
        # A weight that autocast has cast to a narrow format for the plain run must not be found here, nor one that is
        # cast here there. What is kept stays: a weight used before and after is cast once, as in the plain run, and
        # the gradients of its uses are summed in the narrow format.
        torch.set_autocast_cache_enabled(False)
        for kind in devices:
            torch.set_autocast_enabled(kind, False)
        if widened_dtype(default, to) is to:
            torch.set_default_dtype(to)
        with Widening(to, drawn, default):
            yield
    finally:
        torch.set_default_dtype(default)
        for kind in devices:
            torch.set_autocast_enabled(kind, True)
        torch.set_autocast_cache_enabled(cached)


class Widening(TorchDispatchMode):  # type: ignore[misc]
    """The mode behind :func:`widened`, without what that does to the default format and to autocast.

    Attributes
    ----------
    is_active : bool
        While False, operators are called as they are.
    """

    def __init__(self, to: torch.dtype, drawn: torch.dtype | None, default: torch.dtype) -> None:
        super().__init__()
        self.is_active = True
        self._to = to
        self._drawn = drawn
        self._default = default

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.is_active or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        name = base_name(func)
        try:
            if name == "view" and func._overloadname == "dtype":
                return self._bits(func, *args)
            if name in _HANDED_ON or (func.is_view and name != "to"):
                return func(*args, **kwargs)
            if name in _DRAWS:
                return self._draw(func, name, args, kwargs)
            if name == "native_dropout":
                return self._dropout(func, *args, **kwargs)
            return self._compute(func, name, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:
            if isinstance(error, (OpscannerError, torch.OutOfMemoryError)):
                raise
            hint = "opscanner.dynamic.running.wide.widened with another format, or leave this layer out"
            raise WideRefusedError(
                f"{func} failed in {name_of(self._to)}, where it was asked for by widened: {error}", hint
            ) from error

    def _wide(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor cast up; itself where it need not be."""
        wide = widened_dtype(tensor.dtype, self._to)
        return tensor if wide is tensor.dtype or tensor.is_quantized else tensor.to(wide)

    def _is_narrow(self, tensor: torch.Tensor) -> bool:
        return widened_dtype(tensor.dtype, self._to) is not tensor.dtype and not tensor.is_quantized

    def _compute(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """An operator on wide arguments, with wide results; narrow tensors that it writes to are written to."""
        written = [one for one in written_tensors(func, args, kwargs) if self._is_narrow(one)]
        stand_ins = {id(one): self._wide(one) for one in written}
        narrow_given = any(map(self._is_narrow, tensors_of(args, kwargs)))

        def change(tensor: torch.Tensor) -> torch.Tensor:
            found = stand_ins.get(id(tensor))
            return self._wide(tensor) if found is None else found

        args = self._with_wide_dtypes(replaced(tuple(args), change))
        kwargs = self._with_wide_dtypes(replaced(dict(kwargs), change))
        if narrow_given and name in ("_softmax", "_log_softmax"):
            args = (*args[:2], False)  # half_to_float, which asks for a float16 input
        result = func(*args, **kwargs)
        for one in written:
            one.copy_(stand_ins[id(one)])
        originals = {id(stand_ins[id(one)]): one for one in written}
        return replaced(result, lambda one: originals[id(one)] if id(one) in originals else self._wide(one))

    def _with_wide_dtypes(self, value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return widened_dtype(value, self._to)
        if isinstance(value, tuple):
            return tuple(self._with_wide_dtypes(one) for one in value)
        if isinstance(value, dict):
            return {key: self._with_wide_dtypes(one) for key, one in value.items()}
        return value

    def _draw(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Random numbers as the plain run draws them, cast up."""
        asked = kwargs.get("dtype")
        tensors = list(tensors_of(args, kwargs))
        if not tensors and asked is None:
            kwargs = {**kwargs, "dtype": self._default}
        drawn = self._drawn
        if drawn is not None and asked is self._to:
            # As in torch.rand(n, dtype=x.dtype).
            return self._wide(func(*args, **{**kwargs, "dtype": drawn}))
        if drawn is None or asked is not None or not any(one.dtype is self._to for one in tensors):
            return replaced(func(*args, **kwargs), self._wide_unless(args))
        if name.endswith("_like"):
            return self._wide(func(*args, **{**kwargs, "dtype": drawn}))
        narrow = once(lambda one: one.to(drawn) if one.dtype is self._to else one)
        narrow_args, narrow_kwargs = replaced((tuple(args), dict(kwargs)), narrow)
        result = func(*narrow_args, **narrow_kwargs)
        written = list(written_tensors(func, args, kwargs))
        for one in written:
            one.copy_(narrow(one))
        originals = {id(narrow(one)): one for one in written}
        return replaced(result, lambda one: originals[id(one)] if id(one) in originals else self._wide(one))

    def _wide_unless(self, args: Sequence[Any]) -> Callable[[torch.Tensor], torch.Tensor]:
        """Casts up what is not one of the arguments, which was written to."""
        given = {id(one) for one in tensors_of(args)}
        return lambda one: one if id(one) in given else self._wide(one)

    def _dropout(self, func: Any, x: torch.Tensor, p: float, train: bool | None) -> Any:
        """A fused dropout with the mask of the plain run: on a GPU, it depends on how wide an element is."""
        wide = self._wide(x)
        drawn = x.dtype if wide is not x else self._drawn
        if drawn is None or train is False or wide.dtype is not self._to:
            return func(wide, p, train)
        mask = func(torch.empty_like(x, dtype=drawn), p, train)[1]
        return wide * mask * (1 / (1 - p) if p < 1 else 0.0), mask

    def _bits(self, func: Any, x: torch.Tensor, dtype: torch.dtype) -> Any:
        """The same bits as another format: only where that means the same in the wide run."""
        if dtype is x.dtype or widened_dtype(dtype, self._to) is x.dtype:
            return func(x, x.dtype)
        if x.is_floating_point() and dtype.itemsize != x.dtype.itemsize:
            raise WideRefusedError(
                f"{func}: the bits of a {name_of(x.dtype)} tensor are asked for as {name_of(dtype)}; in a run widened "
                f"to {name_of(self._to)} they are not those that the code is about",
                "leave this layer out of the wide run, or give it an arithmetic formula instead of bits",
            )
        seen = func(x, dtype)
        # Numbers put together from integers are what they are, but no longer share memory with them.
        return self._wide(seen)


def run_wide(
    function_or_module: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    to: torch.dtype = torch.float64,
    *,
    own_hooks: bool = True,
) -> Any:
    """The result of a call when everything is computed in ``to``, without gradients; nothing of the caller changes.

    Inputs are copied (those that the call changes in place stay), parameters and buffers of a module are cast copies,
    so running statistics stay; tied weights are one tensor. The random state is put back afterwards: call it with the
    state that the plain run began with, and both draw the same numbers (dropout masks too) as far as the plain run
    draws in the format of the module's parameters, or of the inputs where it has none.

    Hooks of the module and of its submodules run again, unless ``own_hooks`` is False: some of them compute
    (pruning, the older ``weight_norm`` and ``spectral_norm``). Hooks for all modules
    (``register_module_forward_hook``) are instruments, and are not run.

    Parameters
    ----------
    function_or_module : callable
        Parameters of a module that is called inside a function are not cast beforehand, but where they are used.
    args, kwargs : sequence, mapping
        Tensors inside lists, tuples, dictionaries and registered pytrees are cast; those inside other objects not.

    Returns
    -------
    Any
        As the call returns it, floating-point tensors in ``to`` (or wider where they are).

    Raises
    ------
    WideRefusedError
        As :func:`widened`.
    """
    kwargs = {} if kwargs is None else dict(kwargs)
    module = function_or_module if isinstance(function_or_module, torch.nn.Module) else None
    state = {} if module is None else dict(_state_of(module))
    cast = once(lambda one: _cast_copy(one, to))
    wide_state = {name: cast(one) for name, one in state.items()}
    given = _pytree.tree_leaves((args, kwargs))
    drawn = format_of_most([*state.values(), *(one for one in given if isinstance(one, torch.Tensor))], to)
    wide_args, wide_kwargs = _pytree.tree_map_only(torch.Tensor, cast, (tuple(args), kwargs))
    devices = sorted({one.device.index for one in [*state.values(), *given]
                      if isinstance(one, torch.Tensor) and one.device.type == "cuda"})  # fmt: skip
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices=devices),
        hooks_aside(module, own_hooks),
        widened(to, drawn=drawn),
    ):
        if module is None:
            result = function_or_module(*wide_args, **wide_kwargs)
        else:
            with flat_weights_kept(module, wide_state):
                result = torch.func.functional_call(module, wide_state, wide_args, wide_kwargs)
    return _pytree.tree_map_only(torch.Tensor, lambda one: one.detach().to(widened_dtype(one.dtype, to)), result)


def _state_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _cast_copy(tensor: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    """A wide copy that shares nothing with the original and has no history."""
    if tensor.is_quantized:
        return tensor.detach().clone()
    return tensor.detach().to(widened_dtype(tensor.dtype, to), copy=True)


def format_of_most(tensors: Sequence[torch.Tensor], to: torch.dtype) -> torch.dtype | None:
    """The narrow format that most elements have; None where there is none, or no real one."""
    elements: dict[torch.dtype, int] = {}
    for one in tensors:
        if one.is_floating_point() and widened_dtype(one.dtype, to) is to and one.dtype is not to:
            elements[one.dtype] = elements.get(one.dtype, 0) + one.numel()
    elements = {dtype: count for dtype, count in elements.items() if dtype.itemsize > 1}
    # That of the fewest bits among equals, whatever the order.
    return max(elements, key=lambda dtype: (elements[dtype], -dtype.itemsize, name_of(dtype)), default=None)


_HOOKS_FOR_ALL = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_forward_hooks_always_called")
_HOOKS_OF_ONE = ("_forward_pre_hooks", "_forward_hooks", "_forward_hooks_always_called")


@contextmanager
def hooks_aside(module: torch.nn.Module | None, own_hooks: bool) -> Iterator[None]:
    """Hooks for all modules put aside, and a module's own ones too where they are not wanted."""
    holders: list[tuple[Any, str]] = [(module_hooks, name) for name in _HOOKS_FOR_ALL]
    if module is not None and not own_hooks:
        holders += [(one, name) for one in module.modules() for name in _HOOKS_OF_ONE]
    aside = [(holder, name, getattr(holder, name)) for holder, name in holders]
    try:
        for holder, name, hooks in aside:
            setattr(holder, name, type(hooks)())
        yield
    finally:
        for holder, name, hooks in aside:
            setattr(holder, name, hooks)


@contextmanager
def flat_weights_kept(module: torch.nn.Module, wide_state: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Recurrent layers keep a list of their weights, which ``functional_call`` does not exchange."""
    aside = []
    try:
        for path, one in module.named_modules():
            if not isinstance(one, torch.nn.RNNBase):
                continue
            prefix = f"{path}." if path else ""
            aside.append((one, one._flat_weights))
            one._flat_weights = [wide_state.get(prefix + name) for name in one._flat_weights_names]
        yield
    finally:
        for one, weights in aside:
            one._flat_weights = weights
