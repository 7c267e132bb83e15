"""A compile database: read, select, drop duplicates, write."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compile_db.command import CompileCommand, absolute
from compile_db.errors import CompileDatabaseError
from compile_db.response_files import expand

CUDA_SUFFIXES = (".cu", ".cu.cc")
# PyTorch copies a CPU kernel once for each instruction set: X.cpp.DEFAULT.cpp, X.cpp.AVX2.cpp.
CAPABILITY_COPY = re.compile(r"\.cpp\.([A-Z][A-Z0-9_]*)\.cpp$")


@dataclass(frozen=True)
class SkippedEntry:
    """An entry (or a thing an entry needs) that could not be used, and why. ``index`` counts from 0."""

    file: str
    index: int | None
    reason: str


@dataclass(frozen=True)
class CompileDatabase:
    """Compile commands, what was skipped, and where all this comes from."""

    commands: tuple[CompileCommand, ...]
    skipped: tuple[SkippedEntry, ...]
    origin: str
    warnings: tuple[str, ...] = ()

    def select(self, only_globs: Sequence[str], root: str | os.PathLike[str] | None = None) -> CompileDatabase:
        """The commands whose file matches one of the globs: its whole path, its path below ``root``, or its name.

        ``*`` crosses folders: ``native/cuda/*.cu``, ``*SoftMax*``. No glob selects all. Nothing is raised when
        nothing matches: the caller knows what the user asked for.
        """
        if not only_globs:
            return self
        top = os.path.abspath(root) if root is not None else None
        kept = tuple(command for command in self.commands if _matches(command.file, only_globs, top))
        return replace(self, commands=kept)

    def deduplicate(self) -> CompileDatabase:
        """Without entries that say the same twice; entries of one file that differ get distinct configurations."""
        seen: set[tuple[str, str]] = set()
        kept: list[CompileCommand] = []
        for command in self.commands:
            if (command.file, command.key) not in seen:
                seen.add((command.file, command.key))
                kept.append(command)
        uses = Counter((command.file, command.configuration) for command in kept)
        named = tuple(
            replace(command, configuration="-".join(filter(None, (command.configuration, command.key))))
            if uses[command.file, command.configuration] > 1
            else command
            for command in kept
        )
        return replace(self, commands=named)

    def write(self, path: str | os.PathLike[str]) -> None:
        """A JSON compilation database that clang's own tools read; a file that is there is replaced whole.

        Raises
        ------
        CompileDatabaseError
            The file cannot be written.
        """
        entries = [_entry(command) for command in self.commands]
        text = json.dumps(entries, indent=1) + "\n"
        target = os.path.abspath(path)
        temporary = None
        try:
            with tempfile.NamedTemporaryFile(
                "w", dir=os.path.dirname(target), delete=False, encoding="utf-8"
            ) as stream:
                temporary = stream.name
                stream.write(text)
            os.replace(temporary, target)
        except OSError as error:
            if temporary is not None and os.path.exists(temporary):
                os.unlink(temporary)
            raise CompileDatabaseError(f"cannot be written: {error.strerror}", where=target) from error


def load(path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> CompileDatabase:
    """The compile commands of a ``compile_commands.json``, response files read, duplicates dropped.

    Parameters
    ----------
    path : str | os.PathLike[str]
        The file, or a folder that holds it.
    root : str | os.PathLike[str] | None
        The checkout. When given, CUDA sources below it that no entry compiles are warned of.

    Raises
    ------
    CompileDatabaseError
        The file is missing, empty, no JSON, or no list of entries. One bad entry is skipped with its reason.
    """
    place = Path(path)
    if place.is_dir():
        place = place / "compile_commands.json"
    entries = _read_json(place)
    commands: list[CompileCommand] = []
    skipped: list[SkippedEntry] = []
    for index, entry in enumerate(entries):
        try:
            command = _read_entry(entry, index, place)
        except CompileDatabaseError as error:
            name = entry.get("file") if isinstance(entry, dict) else None
            skipped.append(SkippedEntry(name if isinstance(name, str) else "", index, error.what))
            continue
        if os.path.isfile(command.file):
            commands.append(command)
        else:
            skipped.append(
                SkippedEntry(command.file, index, "the file does not exist: generated by a build, or moved?")
            )
    database = CompileDatabase(tuple(commands), tuple(skipped), str(place)).deduplicate()
    return replace(database, warnings=_warnings(database, root))


def _read_json(place: Path) -> list[Any]:
    where = str(place)
    build = "configure with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, or leave --compile-db out to have one synthesized"
    try:
        raw = place.read_bytes()
    except OSError as error:
        raise CompileDatabaseError(f"cannot be read: {error.strerror}", where=where, hint=build) from error
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding, errors="surrogateescape" if encoding == "utf-8-sig" else "strict")
    except UnicodeDecodeError as error:
        raise CompileDatabaseError(f"is no text: {error}", where=where, hint=build) from error
    if not text.strip():
        raise CompileDatabaseError("is empty", where=where, hint=build)
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise CompileDatabaseError(
            f"is no JSON: {error.msg}", where=f"{where}:{error.lineno}:{error.colno}",
            hint="write it anew; a build that was interrupted leaves half a file",
        ) from error  # fmt: skip
    except RecursionError as error:
        raise CompileDatabaseError("is nested too deeply", where=where, hint=build) from error
    if not isinstance(entries, list):
        raise CompileDatabaseError(
            f"holds a JSON {type(entries).__name__}, not a list of entries", where=where, hint=build
        )
    if not entries:
        raise CompileDatabaseError("holds no entry", where=where, hint=build)
    return entries


def _read_entry(entry: object, index: int, place: Path) -> CompileCommand:
    """One entry as a compile command, or an error that says what is wrong with it."""

    def bad(what: str) -> CompileDatabaseError:
        return CompileDatabaseError(what, where=str(place), entry=index)

    if not isinstance(entry, dict):
        raise bad(f"is a JSON {type(entry).__name__}, not an object")
    file, directory = entry.get("file"), entry.get("directory", "")
    if not isinstance(file, str) or not file:
        raise bad('has no "file"')
    if not isinstance(directory, str):
        raise bad('"directory" is no text')
    if "\0" in file + directory:
        raise bad("holds a NUL character")
    directory = absolute(directory, str(place.parent.resolve()))
    arguments = entry.get("arguments")
    if arguments is not None:
        if not isinstance(arguments, list) or not all(isinstance(item, str) for item in arguments):
            raise bad('"arguments" is no list of texts')
    else:
        command = entry.get("command")
        if not isinstance(command, str):
            raise bad('has neither "arguments" nor "command"')
        try:
            arguments = shlex.split(command)
        except ValueError as error:
            raise bad(f'"command" cannot be split: {error}') from error
    if not any(arguments):
        raise bad("has an empty command")
    return make_command(
        directory, file, expand(tuple(arguments), directory), entry.get("output"), f"{place}, entry {index}"
    )


def make_command(
    directory: str, file: str, arguments: tuple[str, ...], output: object = None, origin: str = ""
) -> CompileCommand:
    """A command with absolute paths, and its configuration where the file's name tells."""
    source = absolute(file, directory)
    capability = CAPABILITY_COPY.search(source)
    return CompileCommand(
        directory=directory,
        file=source,
        arguments=arguments,
        output=output if isinstance(output, str) else None,
        origin=origin,
        configuration=capability[1] if capability else _ninja_configuration(output),
    )


def _ninja_configuration(output: object) -> str:
    """``Release`` of Ninja Multi-Config's ``CMakeFiles/x.dir/Release/a.cpp.o``."""
    found = re.search(r"\.dir/(Debug|Release|RelWithDebInfo|MinSizeRel)/", output) if isinstance(output, str) else None
    return found[1] if found else ""


def _matches(file: str, globs: Sequence[str], root: str | None) -> bool:
    names = [file, os.path.basename(file)]
    if root is not None and file.startswith(root + os.sep):
        names.append(file[len(root) + 1 :])
    return any(
        fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, "*/" + pattern.removeprefix("./"))
        for pattern in globs
        for name in names
    )


def _warnings(database: CompileDatabase, root: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """What a reader should know though nothing failed."""
    warnings: list[str] = []
    if root is not None and not any(command.file.endswith(CUDA_SUFFIXES) for command in database.commands):
        sources = sum(1 for _ in _cuda_sources(Path(root)))
        if sources:
            warnings.append(
                f"{root} holds {sources} CUDA sources, but no entry of {database.origin} compiles one:"
                " CMake writes no entries for CUDA with the old FindCUDA. Build with CMake's own CUDA language,"
                " or leave --compile-db out to have one synthesized."
            )
    return tuple(warnings)


def _cuda_sources(root: Path) -> Iterable[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(folder, name) for name in files if name.endswith(CUDA_SUFFIXES))


def _entry(command: CompileCommand) -> dict[str, object]:
    entry: dict[str, object] = {
        "directory": command.directory,
        "file": command.file,
        "arguments": list(command.arguments),
    }
    if command.output is not None:
        entry["output"] = command.output
    return entry
