"""One compile command: as a build wrote it, and as clang gets it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Literal

Language = Literal["cuda", "c++", "c"]
CudaPass = Literal["device", "host", "none"]


@dataclass(frozen=True)
class CompileCommand:
    """One entry of a compile database. Arguments are split, response files read; launchers still stand in front.

    Parameters
    ----------
    directory : str
        Absolute; relative paths in ``arguments`` start here.
    file : str
        Absolute path of the source.
    arguments : tuple[str, ...]
        The command, its compiler included.
    output : str | None
        The object file as written, if the entry tells.
    origin : str
        Where the entry comes from, for messages: ``compile_commands.json, entry 12``.
    configuration : str
        Tells apart entries of one file (``DEFAULT``, ``AVX2``); empty where there is one.
    trusted_arguments : tuple[str, ...]
        What a synthesizer of this package adds for clang, past the allow-list. Never read from a file.
    """

    directory: str
    file: str
    arguments: tuple[str, ...]
    output: str | None
    origin: str
    configuration: str = ""
    trusted_arguments: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Ten hex digits over directory and arguments without the output: equal for entries that say the same."""
        text = "\0".join((self.directory, *_without_output(self.arguments)))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:10]


@dataclass(frozen=True)
class DroppedArgument:
    """An argument that does not reach clang, and why."""

    argument: str
    reason: str


@dataclass(frozen=True)
class ClangCommand:
    """What libclang's parse gets: no compiler, no input file, no output; every path absolute."""

    file: str
    directory: str
    arguments: tuple[str, ...]
    language: Language
    cuda_pass: CudaPass
    configuration: str
    dropped: tuple[DroppedArgument, ...]


def absolute(path: str, directory: str) -> str:
    """``path`` from ``directory``, normalised: ``absolute("../x", "/a/b")`` is ``/a/x``."""
    return os.path.normpath(os.path.join(directory, path))


def _without_output(arguments: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == "-o":
            skip = True
        else:
            kept.append(argument)
    return kept
