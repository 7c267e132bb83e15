"""``@file`` and ``--options-file``: arguments that stand in files. libclang's parse never reads them itself."""

from __future__ import annotations

import os
import shlex

from compile_db.command import absolute
from compile_db.launchers import program_name, strip_launchers

DEEPEST = 8  # response files in response files; gcc stops at 2000 to break cycles
LARGEST_BYTES = 16 << 20


def expand(arguments: tuple[str, ...], directory: str) -> tuple[str, ...]:
    """The arguments with those of response files in place. A file that cannot be read leaves its ``@file``.

    ``@x.rsp`` holding ``-I"C:/Program Files/inc" -DX`` gives ``-IC:/Program Files/inc``, ``-DX``. nvcc's
    ``--options-file a,b`` / ``-optf`` is read when the compiler is nvcc.
    """
    _, own = strip_launchers(arguments)
    is_nvcc = bool(own) and program_name(own[0]).startswith("nvcc")
    return tuple(_expand(list(arguments), directory, is_nvcc, ()))


def _expand(arguments: list[str], directory: str, is_nvcc: bool, inside: tuple[str, ...]) -> list[str]:
    result: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        names, used = _named_files(argument, arguments[position : position + 1], is_nvcc)
        contents = [_contents(absolute(name, directory), inside) for name in names]
        if not names or None in contents:
            result.append(argument)
            continue
        position += used
        for name, content in zip(names, contents, strict=True):
            result += _expand(content or [], directory, is_nvcc, (*inside, absolute(name, directory)))
    return result


def _named_files(argument: str, following: list[str], is_nvcc: bool) -> tuple[list[str], int]:
    """Files that ``argument`` names, and how many further arguments that took."""
    if argument.startswith("@") and len(argument) > 1:
        return [argument[1:]], 0
    if is_nvcc:
        name, equals, value = argument.partition("=")
        if name in ("--options-file", "-optf"):
            if equals:
                return value.split(","), 0
            if following:
                return following[0].split(","), 1
    return [], 0


def _contents(path: str, inside: tuple[str, ...]) -> list[str] | None:
    """The arguments in a response file; None when it is not a readable file, or stands inside itself."""
    if path in inside or len(inside) >= DEEPEST or "\0" in path:
        return None
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST_BYTES:
            return None
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as stream:
            return shlex.split(stream.read())
    except (OSError, ValueError):
        return None
