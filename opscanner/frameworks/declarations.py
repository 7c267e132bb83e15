"""What a framework states about its operators in source text, in words that no framework owns.

An adapter (``pytorch/``, ``tensorflow/``) reads texts and never sees a cursor. What it gives is a graph of *places*:
functions, dispatch stubs, kernel classes and operators, with an edge where the text of one names the other. A
registration says at which places an operator's kernels begin. Which functions really are called from there is clang's
to say wherever clang saw the code (``opscanner.operators.attribution``); the text fills in what it did not see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal, NamedTuple

Device = Literal["cpu", "cuda", "any"]
Direction = Literal["forward", "backward"]


class PlaceKind(Enum):
    """What a place is."""

    FUNCTION = "function"  #: a function's body
    STUB = "stub"  #: a dispatch stub: a name that each device registers a function for
    CLASS = "class"  #: a class whose methods are meant: a kernel or a functor
    OPERATOR = "operator"  #: an operator that is called by its public name


class DeclaredOperator(NamedTuple):
    """An operator as its framework declares it. ``forward_name`` is its own name unless it is a gradient's."""

    name: str
    forward_name: str
    direction: Direction
    file: str
    line: int


class Mention(NamedTuple):
    """A place names another one, in ``file`` at ``line``."""

    target: int
    file: str
    line: int


@dataclass(slots=True)
class Place:
    """A named place in the text, with whom it names. ``line`` to ``end_line`` hold its body.

    ``arguments`` are the names that a class is specialized for.
    """

    kind: PlaceKind
    name: str
    device: Device
    file: str
    line: int
    end_line: int
    mentions: list[Mention] = field(default_factory=list)
    arguments: tuple[str, ...] = ()


class DeclaredRegistration(NamedTuple):
    """A statement that something serves an operator; ``places`` are indices of what it begins with.

    ``arguments`` are names among the template arguments of a class: they tell the instances that are meant from others.
    Not ``dense`` are those for sparse, nested or quantized tensors.
    """

    operator: str
    kind: str
    device: Device
    formats: tuple[str, ...]
    target: str
    file: str
    line: int
    places: tuple[int, ...]
    arguments: tuple[str, ...] = ()
    dense: bool = True


@dataclass(slots=True)
class Declarations:
    """All that a framework's text says about its operators.

    Parameters
    ----------
    libraries : tuple of str
        Folders, ending in ``/``, of types and tools that kernels of all operators use: no operator's own code.
    warnings : list of str
        What could not be read.
    notes : list of str
        What there is nothing to read about.
    enumerations : dict of str to dict of int to str
        Enumerators by value, by the enumeration's name in its scope (``scatter_op::UpdateOp``): clang's symbols name
        template arguments by their values, registrations by their enumerators.
    """

    operators: list[DeclaredOperator] = field(default_factory=list)
    registrations: list[DeclaredRegistration] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    libraries: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    enumerations: dict[str, dict[int, str]] = field(default_factory=dict)


#: Reads a checkout. Files in what it gives are relative to the root.
Adapter = Callable[[Path], Declarations]


def adapters() -> dict[str, Adapter]:
    """The adapters, by the name of their framework."""
    from opscanner.frameworks.pytorch.adapter import read as read_pytorch
    from opscanner.frameworks.tensorflow.adapter import read as read_tensorflow

    return {"pytorch": read_pytorch, "tensorflow": read_tensorflow}
