"""How an operator's call gets its second result, in each mode of a watch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

import torch

from opscanner.dynamic.running.calls import floats_of, is_float, once, replaced
from opscanner.dynamic.running.kinds import base_name, has_workspace, is_random, written_arguments, written_tensors
from opscanner.dynamic.running.noise import NoiseSource

WIDER = {
    torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip


class _SecondRuns(threading.local):
    """How many second runs this thread is in."""

    depth = 0


_SECOND_RUNS = _SecondRuns()


@contextlib.contextmanager
def second_run() -> Iterator[None]:
    """What runs inside is made by a watch: no other watch checks it."""
    _SECOND_RUNS.depth += 1
    try:
        yield
    finally:
        _SECOND_RUNS.depth -= 1


def in_second_run() -> bool:
    """True inside of :func:`second_run`."""
    return _SECOND_RUNS.depth > 0


class Second(Protocol):
    """Makes the second call of an operator."""

    #: True when the second result is nearer to the truth than the first, and not just another one.
    is_reference: bool

    def arrange(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
        """A call that gives the second result and touches no tensor of the first; None where the mode has none.

        It is made before the first call, which may write over its arguments, and called after it.
        """


class Perturbed:
    """The same operator on inputs moved by rounding errors.

    Parameters
    ----------
    parameters : set of int
        Addresses of memory that is left as it is: of the model's parameters, as in FuMi, whose layers perturb inputs.
    """

    is_reference = False

    def __init__(self, noise: NoiseSource, parameters: AbstractSet[int] = frozenset()) -> None:
        self._noise = noise
        self._parameters = parameters

    def arrange(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
        if self.may_be_asked_again(operator):
            others, words = replaced((list(args), dict(kwargs)), once(self._quickly))
            return lambda: operator(*others, **words)
        return self.arrange_again(operator, args, kwargs)

    def _quickly(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._noise.perturbed_quickly(tensor) if self._is_moved(tensor) else tensor

    def _is_moved(self, tensor: torch.Tensor) -> bool:
        return is_float(tensor) and tensor.untyped_storage().data_ptr() not in self._parameters

    @staticmethod
    def may_be_asked_again(operator: Any) -> bool:
        """True where the call can be made again afterwards: it writes to no argument, and draws no random numbers.

        Then noise is made in a way that infinities do not survive, and in the slower one when something is not finite.
        """
        return not written_arguments(operator) and not is_random(operator)

    def arrange_again(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
        """As :meth:`arrange`, with infinities as they are."""
        others, words = moved_arguments(self._noise, operator, args, kwargs, self._is_moved)
        return lambda: operator(*others, **words)


class Upcast:
    """The same operator one format wider."""

    is_reference = True

    def arrange(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
        if has_workspace(operator) or not any(one.dtype in WIDER for one in floats_of(args, kwargs)):
            return None
        kept = _kept_apart(operator, args, kwargs)
        wide = once(lambda one: one.to(WIDER[one.dtype]) if one.dtype in WIDER else kept(one))
        others, words = replaced(list(args), wide), replaced(dict(kwargs), wide)
        others = [WIDER.get(one, one) if isinstance(one, torch.dtype) else one for one in others]
        words = {name: WIDER.get(one, one) if isinstance(one, torch.dtype) else one for name, one in words.items()}
        return lambda: operator(*others, **words)


class Substituted:
    """Another implementation in an operator's place.

    Parameters
    ----------
    candidates : mapping
        ATen operators, as overloads or packets or names such as ``"aten.softmax"``, -> callables of the same arguments.
    """

    is_reference = False

    def __init__(self, candidates: Mapping[Any, Callable[..., Any]]) -> None:
        self._candidates = dict(candidates)

    def arrange(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
        candidate = self._candidate(operator)
        if candidate is None:
            return None
        copied = once(_kept_apart(operator, args, kwargs))
        others, words = replaced(list(args), copied), replaced(dict(kwargs), copied)
        return lambda: candidate(*others, **words)

    def _candidate(self, operator: Any) -> Callable[..., Any] | None:
        names = (operator, operator._overloadpacket, str(operator), f"aten.{base_name(operator)}", base_name(operator))
        return next((self._candidates[name] for name in names if name in self._candidates), None)


def moved_arguments(
    noise: NoiseSource,
    operator: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    is_moved: Callable[[torch.Tensor], bool] = is_float,
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, those of floating point moved, and those that the call writes to apart."""
    kept = _kept_apart(operator, args, kwargs)
    change = once(lambda one: noise.perturbed(one) if is_moved(one) else kept(one))
    return replaced(list(args), change), replaced(dict(kwargs), change)


def as_they_are(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The arguments as they are before the call: copied where the call writes over them."""
    if not written_arguments(operator):
        return args, kwargs
    kept = once(_kept_apart(operator, args, kwargs))
    return replaced(list(args), kept), replaced(dict(kwargs), kept)


def _kept_apart(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Gives a tensor as it is, and a copy of one that the call writes to."""
    identities = {id(one) for one in written_tensors(operator, args, kwargs)}
    return lambda tensor: tensor.clone() if id(tensor) in identities else tensor
