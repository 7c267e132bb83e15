"""What stands in front of the compiler: ccache, ``env A=B``, ``cmake -E env``, a wrapper script of Bazel's."""

from __future__ import annotations

import re

# Programs that take a compiler's command line as their own arguments, options of theirs first.
LAUNCHERS = {
    "ccache", "sccache", "buildcache", "distcc", "icecc", "icecream", "gomacc", "rewrapper", "fastbuild", "pump",
    "colorgcc", "time", "nice", "nohup", "ionice", "taskset", "stdbuf", "strace", "bear", "intercept-build", "xcrun",
    "command", "exec", "sudo", "launcher", "cachecc1", "firebuild", "goma", "recc", "fccache",
}  # fmt: skip
# Options of launchers that take the next argument.
LAUNCHER_VALUES = {
    "env": {"-u", "--unset", "-C", "--chdir", "-S"},
    "nice": {"-n", "--adjustment"},
    "ionice": {"-c", "-n", "-p"},
    "stdbuf": {"-i", "-o", "-e"},
    "strace": {"-o", "-e"},
    "xcrun": {"--sdk", "--toolchain"},
    "python": {"-X", "-W"},
    "rewrapper": {"-cfg", "-exec_root"},
}
ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")


def program_name(argument: str) -> str:
    """``ccache`` for ``C:\\tools\\ccache.exe`` and ``/usr/bin/ccache``."""
    name = re.split(r"[\\/]", argument.strip())[-1].lower()
    return name.removesuffix(".exe")


def strip_launchers(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The launchers in front, and the compiler's own command line.

    ``("/usr/bin/ccache", "g++", "-c", "a.cpp")`` gives ``(("/usr/bin/ccache",), ("g++", "-c", "a.cpp"))``. Empty
    arguments in front go with the launchers: two spaces after ``ccache`` are common in what build tools write.
    """
    position = 0
    while position < len(arguments):
        after = _after_launcher(arguments, position)
        if after == position:
            break
        position = after
    return arguments[:position], arguments[position:]


def _after_launcher(arguments: tuple[str, ...], position: int) -> int:
    """Position after the launcher at ``position``; ``position`` itself when a compiler stands there."""
    name = program_name(arguments[position])
    if not name or ASSIGNMENT.match(arguments[position]):
        return position + 1
    if name == "cmake" and arguments[position + 1 : position + 2] == ("-E",):
        return _after_cmake(arguments, position + 2)
    if name == "env":
        return _after_options(arguments, position + 1, LAUNCHER_VALUES["env"])
    if re.fullmatch(r"python\d?(\.\d+)?|launcher", name):
        return _after_options(arguments, position + 1, LAUNCHER_VALUES["python"])
    if name in LAUNCHERS:
        after = _after_options(arguments, position + 1, LAUNCHER_VALUES.get(name, set()))
        if name == "taskset" and after < len(arguments) and re.fullmatch(r"[0-9a-fA-Fx,-]+", arguments[after]):
            after += 1
        return after if after < len(arguments) else position
    return position


def _after_cmake(arguments: tuple[str, ...], position: int) -> int:
    """``cmake -E env A=B -- g++``, ``cmake -E time g++``, ``cmake -E __run_co_compile --launcher=ccache -- g++``."""
    for index in range(position, len(arguments)):
        if arguments[index] == "--":
            return index + 1
        if index > position and not arguments[index].startswith("-") and not ASSIGNMENT.match(arguments[index]):
            return index
    return position


def _after_options(arguments: tuple[str, ...], position: int, take_value: set[str]) -> int:
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            return position + 1
        if argument in take_value:
            position += 2
        elif argument.startswith("-"):  # also the "-" of "env - A=B"
            position += 1
        else:
            break
    return min(position, len(arguments))
