"""What libclang says to a translated command."""

from __future__ import annotations

from pathlib import Path

import clang.cindex as cindex

import compile_db
from compile_db.database import make_command

KEEP_GOING = 0x200


def parse(command: compile_db.ClangCommand) -> cindex.TranslationUnit:
    return cindex.Index.create().parse(command.file, args=list(command.arguments), options=KEEP_GOING)


def errors_of(command: compile_db.ClangCommand) -> list[str]:
    """Errors with the end of their file's path, in order."""
    return [
        f"{Path(str(found.location.file)).name}:{found.location.line}: {found.spelling}"
        for found in parse(command).diagnostics
        if found.severity >= cindex.Diagnostic.Error
    ]


def write_source(folder: Path, text: str, name: str = "a.cu") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def command_of(folder: Path, *arguments: str, file: str = "a.cu") -> compile_db.CompileCommand:
    return make_command(str(folder), file, arguments, None, "test")
