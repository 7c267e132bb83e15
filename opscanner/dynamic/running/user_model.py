"""A model and its inputs from a user's file. The file is executed: this is the user's own code, not data."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from opscanner.errors import OpscannerError, UsageError

T = TypeVar("T")


@contextlib.contextmanager
def user_model(target: str) -> Iterator[tuple[Any, Any]]:
    """The model and the inputs that a function gives, which is called without arguments.

    Inside, the folder of the file (of a module, the current folder) can be imported from, and what is printed goes to
    stderr.

    Parameters
    ----------
    target : str
        ``FILE.py:function`` or ``package.module:function``. The file is imported under a name of its own, so that what
        stands below ``if __name__ == "__main__"`` is not executed; all else in it is.

    Raises
    ------
    UsageError
        When there is no such file, module or function, or it gives no pair of a torch module and inputs.
    OpscannerError
        When that code raises; its own error is the cause.
    """
    import torch

    place, _, name = target.rpartition(":")
    if not place or not name.isidentifier():
        raise UsageError(f"{target!r} names no function", "FILE.py:function or package.module:function")
    is_file = place.endswith(".py")
    if is_file and not Path(place).is_file():
        raise UsageError(f"there is no file {place}", "FILE.py:function")
    earlier = list(sys.path)
    sys.path.insert(0, str(Path(place).resolve().parent) if is_file else "")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            module = called(f"importing {place}", lambda: _of_file(Path(place)) if is_file else _of_name(place))
            function = getattr(module, name, None)
            if not callable(function):
                raise UsageError(f"{place} has no function {name}", "a function that gives (model, inputs)")
            given = called(f"{target}()", function)
            if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], torch.nn.Module)):
                raise UsageError(f"{target}() gives {_kind(given)}", "return (model, inputs), a torch.nn.Module first")
            yield given
    finally:
        sys.path[:] = earlier


def called(what: str, function: Callable[[], T]) -> T:
    """What a user's function gives; what it raises becomes an :class:`OpscannerError` that says what was being done."""
    try:
        return function()
    except OpscannerError:
        raise
    except Exception as error:
        hint = "OPSCANNER_DEBUG=1 shows where"
        raise OpscannerError(f"{what} raised {type(error).__name__}: {error}", hint) from error


def _of_file(path: Path) -> Any:
    name = f"opscanner_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    spec.loader.exec_module(module)
    return module


def _of_name(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"there is no module {name}", "FILE.py:function for a file") from error
        raise


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(one).__name__ for one in value) or 'nothing'}"
    return f"a value of type {type(value).__name__}"
