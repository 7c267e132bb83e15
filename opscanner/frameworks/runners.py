"""The door to the frameworks' runners: each is imported, and its framework with it, when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from opscanner.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

#: Frameworks that have a runner, and the package that each needs.
FRAMEWORKS = {"pytorch": "torch", "tensorflow": "tensorflow"}


class Runner(Protocol):
    """What ``opscanner/frameworks/*/runner.py`` offers to those who run operators."""

    #: Operators that compute nothing: what only moves, names or fills.
    BOOKKEEPING: frozenset[str]

    def evaluate(
        self,
        expression: str,
        inputs: Mapping[str, np.ndarray],
        format_name: str,
        *,
        device: str = "cpu",
        layout: str = "contiguous",
    ) -> list[np.ndarray]:
        """The values of an expression, one array an output."""

    def evaluate_named(
        self,
        expression: str,
        inputs: Mapping[str, np.ndarray],
        format_name: str,
        *,
        device: str = "cpu",
        layout: str = "contiguous",
    ) -> list[tuple[str, np.ndarray]]:
        """The same, each with the name of the format that it came in."""

    def evaluate_compiled(
        self, expression: str, inputs: Mapping[str, np.ndarray], format_name: str, *, device: str = "cpu"
    ) -> list[tuple[str, np.ndarray]]:
        """As ``evaluate_named``, through the framework's compiler."""

    def operators_run(self, expression: str, inputs: Mapping[str, np.ndarray], format_name: str) -> tuple[str, ...]:
        """The framework's operators that an expression runs, in order of first call, :attr:`BOOKKEEPING` too."""

    def backward_operators_run(
        self, expression: str, inputs: Mapping[str, np.ndarray], format_name: str
    ) -> tuple[str, ...]:
        """Those of the backward pass that may round."""

    def unsupported(self, error: BaseException) -> str | None:
        """What is missing, when an error says that the framework has no such operator, format, device or layout."""

    def out_of_memory(self, error: BaseException) -> bool:
        """True when an error says that memory did not suffice."""

    def devices(self) -> list[str]:
        """``cpu``, and ``cuda:0`` and so on."""

    def versions(self) -> dict[str, str]:
        """What a result depends on."""

    def run_reproducibly(self) -> None:
        """Make results independent of the number of cores; before the first operator."""


def runner_of(framework: str) -> Runner:
    """The runner of ``pytorch`` or ``tensorflow``; its framework is imported here, which takes seconds.

    Raises
    ------
    UsageError
        When there is no runner of that name, or the framework is not installed.
    """
    package = FRAMEWORKS.get(framework)
    if package is None:
        raise UsageError(f"there is no framework {framework!r}", f"one of {', '.join(FRAMEWORKS)}")
    if not is_installed(framework):
        raise UsageError(f"{package} is not installed: nothing of {framework} can be run", f"pip install {package}")
    return cast(Runner, importlib.import_module(f"opscanner.frameworks.{framework}.runner"))


def check_device(framework: str, device: str, there: Collection[str]) -> None:
    """Refuses a device that is not ``there``; ``cuda`` means ``cuda:0``.

    Raises
    ------
    UsageError
        With those that are.
    """
    if ("cuda:0" if device == "cuda" else device) not in there:
        raise UsageError(f"{framework} has no device {device!r} here", f"one of {', '.join(there)}")


def is_installed(framework: str) -> bool:
    """True when the framework's package is there; imports nothing of it."""
    return importlib.util.find_spec(FRAMEWORKS[framework]) is not None
