"""Compile commands of a Bazel workspace: ``bazel aquery --output=jsonproto`` of it, or a ``--subcommands`` log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compile_db.capture.build_log import sources_in
from compile_db.command import CompileCommand
from compile_db.database import CompileDatabase, SkippedEntry, make_command
from compile_db.errors import CompileDatabaseError
from compile_db.response_files import expand

COMPILES = {"CppCompile", "CudaCompile", "ObjcCompile"}
HOW = "bazel aquery 'mnemonic(CppCompile, //...)' --output=jsonproto > aquery.json"


def read_aquery(path: str | os.PathLike[str], execution_root: str | os.PathLike[str]) -> CompileDatabase:
    """The compile commands of an aquery in JSON.

    Parameters
    ----------
    path : str | os.PathLike[str]
        What ``bazel aquery --output=jsonproto`` printed.
    execution_root : str | os.PathLike[str]
        Where the paths start: ``bazel info execution_root``, or the workspace for its own sources.

    Raises
    ------
    CompileDatabaseError
        The file is no aquery in JSON, or holds no compile action.
    """
    where = os.path.abspath(path)
    actions = _actions(where)
    root = os.path.abspath(execution_root)
    commands: list[CompileCommand] = []
    skipped: list[SkippedEntry] = []
    for index, action in enumerate(actions):
        command = _command(action, index, root, where)
        if isinstance(command, SkippedEntry):
            skipped.append(command)
        elif command is not None and not os.path.isfile(command.file):
            skipped.append(SkippedEntry(command.file, index, "the file does not exist: not generated, or not fetched"))
        elif command is not None:
            commands.append(command)
    if not commands and not skipped:
        raise CompileDatabaseError("holds no compile action", where=where, hint=HOW)
    return CompileDatabase(tuple(commands), tuple(skipped), where).deduplicate()


def _actions(where: str) -> Iterable[Any]:
    try:
        content = json.loads(Path(where).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CompileDatabaseError(f"cannot be read: {error.strerror}", where=where, hint=HOW) from error
    except (ValueError, RecursionError) as error:
        raise CompileDatabaseError(f"is no JSON: {error}", where=where, hint=HOW) from error
    actions = content.get("actions") if isinstance(content, dict) else None
    if not isinstance(actions, list):
        raise CompileDatabaseError('holds no "actions"', where=where, hint=HOW)
    return actions


def _command(action: object, index: int, root: str, where: str) -> CompileCommand | SkippedEntry | None:
    """The action's command; None when it compiles nothing; a skipped entry when it cannot be used."""
    if not isinstance(action, dict) or action.get("mnemonic") not in COMPILES:
        return None
    arguments = action.get("arguments")
    if not isinstance(arguments, list) or not all(isinstance(item, str) for item in arguments):
        return SkippedEntry("", index, "the action holds no arguments: is this --output=jsonproto?")
    arguments = expand(tuple(_with_parameter_files(arguments, action)), root)
    sources = sources_in(arguments) or [item for item in arguments if item.endswith((".cu.cc", ".cc", ".cpp", ".cu"))]
    if not sources:
        return SkippedEntry("", index, "compiles no source: a header check or a module")
    return make_command(root, sources[-1], arguments, None, f"{where}, action {index}")


def _with_parameter_files(arguments: list[str], action: dict[str, Any]) -> list[str]:
    """The arguments with those of ``--include_param_files`` in place of the ``@file`` that stands for them."""
    files = {}
    for item in action.get("paramFiles") or ():
        if isinstance(item, dict) and isinstance(item.get("arguments"), list):
            files[f"@{item.get('execPath')}"] = [part for part in item["arguments"] if isinstance(part, str)]
    return [part for argument in arguments for part in files.get(argument, [argument])]
