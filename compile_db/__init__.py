"""How was this file compiled, and how would clang compile it?

Reads compile databases (or makes one for a checkout that nobody has built), and translates each command into the
arguments that libclang's parse gets. Uses the standard library only, and executes nothing that it reads.
"""

from compile_db.command import ClangCommand, CompileCommand, DroppedArgument
from compile_db.database import CompileDatabase, SkippedEntry, load
from compile_db.errors import CompileDatabaseError
from compile_db.synthesize import detect, synthesize
from compile_db.synthesize.installed import find_installed, is_installed
from compile_db.synthesize.tensorflow_headers import checkout_version as tensorflow_version
from compile_db.synthesize.tensorflow_headers import describe_headers as describe_tensorflow_headers
from compile_db.toolchain import Finding, Toolchain
from compile_db.toolchain import find as find_toolchain
from compile_db.translate import translate

__all__ = [
    "ClangCommand",
    "CompileCommand",
    "CompileDatabase",
    "CompileDatabaseError",
    "DroppedArgument",
    "Finding",
    "SkippedEntry",
    "Toolchain",
    "describe_tensorflow_headers",
    "detect",
    "find_installed",
    "find_toolchain",
    "is_installed",
    "load",
    "synthesize",
    "tensorflow_version",
    "translate",
]
