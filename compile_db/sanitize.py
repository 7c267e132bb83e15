"""What of a host compiler's arguments may reach the parser: an allow-list.

A compile database may come from anyone. libclang runs clang's driver and front end inside this process, where options
load code (``-fplugin``, ``-Xclang -load``, ``-mllvm -load``), write files (``-o``, ``-MF``, ``-ftime-trace``, module
caches), start programs (``-wrapper``, ``-B``) or read options from elsewhere (``--config``, ``-specs``, ``@file``).
New ones come with each release. So only what bears on the meaning of the source and is known to be harmless passes;
the rest is dropped with its reason.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from compile_db.command import DroppedArgument, absolute

# Directories to search: how the option is written -> how it is passed on.
SEARCH_OPTIONS = {
    "-I": "-I", "--include-directory": "-I", "-isystem": "-isystem", "-iquote": "-iquote",
    "-idirafter": "-idirafter", "-isystem-after": "-isystem-after", "-cxx-isystem": "-cxx-isystem",
    "--include-directory-after": "-idirafter", "-isysroot": "-isysroot", "--sysroot": "--sysroot",
    "--gcc-toolchain": "--gcc-toolchain", "--gcc-install-dir": "--gcc-install-dir", "-gcc-toolchain": "--gcc-toolchain",
}  # fmt: skip
JOINED_ONLY_WITH_EQUALS = {"--sysroot", "--gcc-toolchain", "--gcc-install-dir"}
SOURCE_OPTIONS = {"-include": "-include", "--include": "-include", "-imacros": "-imacros", "--imacros": "-imacros"}
MACRO_OPTIONS = {"-D": "-D", "-U": "-U", "--define-macro": "-D", "--undefine-macro": "-U"}

# Options without a path. Each bears on types, overloads, macros or on which floating-point operations are made.
_FLOATING = (
    r"-f(no-)?(fast-math|finite-math-only|math-errno|signed-zeros|trapping-math|associative-math|reciprocal-math"
    r"|unsafe-math-optimizations|honor-nans|honor-infinities|rounding-math|approx-func|strict-float-cast-overflow"
    r"|gpu-approx-transcendentals|cuda-approx-transcendentals|cx-limited-range|cx-fortran-rules|single-precision-constant)"
    r"|-f(fp-contract|fp-model|fp-eval-method|excess-precision|float16-excess-precision|fp-exception-behavior"
    r"|complex-arithmetic)=[a-z0-9-]+"
)
_LANGUAGE = (
    r"-f(no-)?(exceptions|cxx-exceptions|rtti|signed-char|unsigned-char|short-enums|short-wchar|wrapv|char8_t"
    r"|char8-t|coroutines|coroutines-ts|concepts|ms-extensions|ms-compatibility|gnu-keywords|operator-names|builtin"
    r"|freestanding|hosted|openmp|openmp-simd|blocks|sized-deallocation|aligned-allocation|declspec|dollars-in-identifiers"
    r"|trigraphs|threadsafe-statics|strict-enums|relaxed-template-template-args|lax-vector-conversions|permissive"
    r"|gnu89-inline|asm|elide-constructors|native-half-type|double-square-bracket-attributes|PIC|pic|PIE|pie)"
    r"|-fno-builtin-[a-z0-9_]+"
    r"|-f(template-depth|constexpr-depth|constexpr-steps|bracket-depth|new-alignment)=\d{1,9}"
    r"|-flax-vector-conversions=(none|integer|all)"
)
_TARGET = (
    r"-m(no-)?(avx|sse|ssse|mmx|fma|f16c|bmi|popcnt|lzcnt|adx|aes|sha|pclmul|rdrnd|rdseed|xsave|amx|movbe|abm|3dnow"
    r"|vaes|gfni|vpclmul|cx16|sahf|fsgsbase|prfchw|rtm|altivec|vsx|power|neon|general-regs)[a-z0-9.-]*"
    r"|-m(arch|tune|cpu|fpu|abi|float-abi|fpmath|prefer-vector-width)=[A-Za-z0-9_.+,-]+"
    r"|-m(32|64|x32|long-double-(64|80|128))"
    r"|-?-target=[A-Za-z0-9_.-]+"
)
_OTHER = (
    r"--?std=(gnu|c|iso9899:)(\+\+)?[0-9a-z]{2,6}|-ansi|-pthread|-undef|-nostdinc|-nostdinc\+\+|-nostdlibinc"
    r"|--?no-standard-includes|-fcuda-is-device"
)
PLAIN_OPTION = re.compile(rf"(?:{_FLOATING}|{_LANGUAGE}|{_TARGET}|{_OTHER})")
REFUSED_THOUGH_PLAIN = {"-fcuda-is-device": "clang's own option: chosen by the pass", "-fasm": "no bearing"}

# Options whose value is the next argument: both go. (An unknown one loses its value as a stray argument anyhow.)
VALUE_OPTIONS = {
    "-o", "-MF", "-MT", "-MQ", "-MJ", "-Xclang", "-Xlinker", "-Xassembler", "-Xanalyzer", "-mllvm", "-arch", "-T",
    "-u", "-z", "-L", "-l", "-B", "-e", "-dumpbase", "-dumpbase-ext", "-dumpdir", "-aux-info", "--param", "-wrapper",
    "-specs", "--specs", "-include-pch", "-ivfsoverlay", "-vfsoverlay", "-iprefix", "-iwithprefix", "-A",
    "-iwithprefixbefore", "-F", "-iframework", "-framework", "-G", "-imultilib", "-index-store-path",
    "-working-directory",
    "-serialize-diagnostics", "--serialize-diagnostics", "-Xopenmp-target", "-Xcuda-ptxas", "-Xcuda-fatbinary",
    "-Xarch_device", "-Xarch_host", "-Xthinlto", "-load", "-plugin", "-fplugin", "--config", "-config",
    "-fmodule-file", "-fmodules-cache-path", "-ccc-gcc-name", "-ccc-install-dir", "-resource-dir", "-main-file-name",
    "--cuda-path", "--output", "--output-file", "-dependency-file", "-diagnostic-log-file", "-install_name",
    "-target-cpu",
    "-object_path_lto", "-Xflang", "-Xoffload-linker", "-Xcudafe", "-Xfatbin", "-isystem-prefix",
    "--system-header-prefix",
}  # fmt: skip

# Why an option is dropped, first match wins. Only the message depends on this list; what passes does not.
REASONS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"-f?plugin|-fpass-plugin|-load|-Xclang|-Xanalyzer|-mllvm|-fplugin-arg|-add-plugin", "may load code"),
        (r"-wrapper|-B|-ccc-|--?specs|-no-canonical-prefixes|-fuse-ld|--ld-path", "chooses another program"),
        (r"--?config|-fmodule|--?precompile|-ivfsoverlay|-vfsoverlay|-include-pch|@",
         "reads a file that is not source"),
        (r"-o|-M|--?save-temps|-ftime-|--?serialize-diag|-f?dump|-d[a-zA-Z]*$|-gen-|-fprofile|-fcoverage|--?coverage"
         r"|-index-store|-fcrash|-gmodules|-fstack-usage|-fsave-|-fdiagnostics-(add|format)|-dependency|-fdebug-comp"
         r"|-ftest-coverage|-fopt-info|-foptimization-record|-emit|-fproc-stat|-aux-info|-fcallgraph|-Rpass|--?output",
         "may write a file"),
        (r"-W|-w$|-pedantic|-R|-fdiagnostics|-fcolor|-fno-color|-fmessage|-fshow|-ferror-limit|-fmacro-backtrace",
         "messages only"),
        (r"-O|-g|-f(no-)?(omit|strict-al|vis|inline|unroll|tree|lto|stack|function-sec|data-sec|plt|semantic|sanitize"
         r"|merge|align|ipa|slp|vect|vect|split|common|debug|gpu-rdc|gpu-flush|cuda-flush|common|delete|devirt|ident)",
         "code generation only"),
        (r"-[cSEsv]$|-###|-fsyntax-only|-pipe|-save-stats|-r$|-shared|-static|-l|-L|-rdynamic|-nostart|-nolib|-nodefault",
         "phase, or for the linker"),
        (r"-stdlib|--?resource-dir|--?cuda-path|-nocuda|-nogpu|--cuda-(device|host)-only|-Xarch",
         "chosen by this scan"),
    )
)  # fmt: skip
UNKNOWN = "not on the list of options that are known to bear on meaning and to do no harm"


@dataclass
class Sanitized:
    """What may pass, in order; language and architectures as the command asks for; the rest with reasons."""

    arguments: list[str] = field(default_factory=list)
    language: str | None = None
    standard: str | None = None
    architectures: list[str] = field(default_factory=list)
    dropped: list[DroppedArgument] = field(default_factory=list)


def sanitize(arguments: tuple[str, ...], directory: str, file: str) -> Sanitized:
    """Arguments of gcc or clang (compiler's name left out) that the parser may see, paths made absolute.

    ``("-Iinc", "-DX=1", "-fplugin=evil.so", "-o", "x.o", "x.cpp")`` in ``/d`` leaves ``["-I/d/inc", "-DX=1"]``.
    """
    return _Reader(list(arguments), directory, file).read()


class _Reader:
    def __init__(self, pending: list[str], directory: str, file: str) -> None:
        self.pending, self.directory, self.file = pending, directory, file
        self.result = Sanitized()

    def read(self) -> Sanitized:
        self.pending.reverse()
        while self.pending:
            self._read_one(self.pending.pop())
        return self.result

    def _read_one(self, argument: str) -> None:
        if not _can_be_passed(argument):
            self._drop(argument, "holds a character that no argument can hold")
        elif not argument.startswith("-") or argument == "-":
            self._read_positional(argument)
        elif argument.startswith(("-Wp,", "-Xpreprocessor")):
            self._unwrap(argument)
        elif argument.startswith(("-x", "--language=")) or argument in ("--language",):
            self._read_language(argument)
        elif argument.startswith(("--cuda-gpu-arch=", "--offload-arch=")):
            self.result.architectures.append(argument.partition("=")[2])
        elif not (self._read_macro(argument) or self._read_path(argument)):
            self._read_plain(argument)

    def _read_positional(self, argument: str) -> None:
        if argument.startswith("@"):
            self._drop(argument, "response file that could not be read")
        elif argument and absolute(argument, self.directory) != self.file:
            self._drop(argument, "not an option, and not this entry's file")

    def _unwrap(self, argument: str) -> None:
        """``-Wp,-DX,-MD,x.d`` and ``-Xpreprocessor -DX``: what is inside is read like any other argument."""
        if argument == "-Xpreprocessor":
            if self.pending:
                return
            self._drop(argument, "its value is missing")
        elif argument.startswith("-Wp,"):
            self.pending.extend(reversed(argument.split(",")[1:]))
        else:
            self._drop(argument, UNKNOWN)

    def _read_language(self, argument: str) -> None:
        joined = argument.removeprefix("--language=") if argument.startswith("--") else argument[2:]
        value = joined if joined and joined != "--language" else self._value_of(argument)
        if value is not None:
            self.result.language = value

    def _option_value(self, argument: str, name: str) -> str | None:
        """The value of an option, joined to its name or the argument after it; None when there is none."""
        if argument == name:
            return self._value_of(argument)
        return argument[len(name) + name.startswith("--") :]

    def _read_macro(self, argument: str) -> bool:
        for name, passed_as in MACRO_OPTIONS.items():
            if not _is_option(argument, name):
                continue
            value = self._option_value(argument, name)
            if value is not None:
                if re.match(r"[^\W\d]|\$", value):
                    self.result.arguments.append(passed_as + value)
                else:
                    self._drop(argument, f"{value!r} is no macro")
            return True
        return False

    def _read_path(self, argument: str) -> bool:
        for name in sorted((*SEARCH_OPTIONS, *SOURCE_OPTIONS), key=len, reverse=True):
            if not _is_option(argument, name):
                continue
            value = self._option_value(argument, name)
            if value is not None:
                self._pass_path(name, value, argument)
            return True
        return False

    def _pass_path(self, name: str, value: str, argument: str) -> None:
        if not value or value.startswith(("-", "@")):
            self._drop(argument, f"{value!r} is no path")
        elif name in SOURCE_OPTIONS:
            path = absolute(value, self.directory)
            if path.startswith(("/dev/", "/proc/", "/sys/")):
                self._drop(f"{argument} {value}", "not a source file")
            else:  # looked up like a quoted include: in the directory first, then along the search path
                self.result.arguments += [SOURCE_OPTIONS[name], path if os.path.isfile(path) else value]
        elif name in JOINED_ONLY_WITH_EQUALS or SEARCH_OPTIONS[name].startswith("--"):
            self.result.arguments.append(f"{SEARCH_OPTIONS[name]}={absolute(value, self.directory)}")
        else:
            path = value if value.startswith("=") else absolute(value, self.directory)
            passed_as = SEARCH_OPTIONS[name]
            self.result.arguments += [passed_as + path] if passed_as == "-I" else [passed_as, path]

    def _read_plain(self, argument: str) -> None:
        if argument in ("-std", "--std", "-target", "--target"):
            value = self._value_of(argument)
            if value is not None:
                self._read_plain(f"-{argument.lstrip('-')}={value}")
        elif argument == "-Ofast":
            self.result.arguments.append("-ffast-math")
        elif PLAIN_OPTION.fullmatch(argument) and argument not in REFUSED_THOUGH_PLAIN:
            if argument.startswith(("-std=", "--std=")):
                self.result.standard = argument.partition("=")[2]
            elif argument.startswith("-target="):
                self.result.arguments.append("-" + argument)
            else:
                self.result.arguments.append(argument)
        else:
            value = self.pending.pop() if _takes_value(argument) and self.pending else None
            shown = argument if value is None else f"{argument} {value}"
            self._drop(shown, _reason(argument))

    def _value_of(self, argument: str) -> str | None:
        """The next argument; None, and a note, where there is none or it cannot be passed."""
        if not self.pending:
            self._drop(argument, "its value is missing")
            return None
        value = self.pending.pop()
        if not _can_be_passed(value):
            self._drop(argument, "its value holds a character that no argument can hold")
            return None
        return value

    def _drop(self, argument: str, reason: str) -> None:
        self.result.dropped.append(DroppedArgument(argument, reason))


def _can_be_passed(argument: str) -> bool:
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\0" not in argument


def _takes_value(argument: str) -> bool:
    return argument in VALUE_OPTIONS or (argument.startswith("-Xarch_") and "=" not in argument)


def _reason(argument: str) -> str:
    return next((reason for pattern, reason in REASONS if pattern.match(argument)), UNKNOWN)


def _is_option(argument: str, name: str) -> bool:
    """Whether an argument is the option ``name``, alone or with its value: ``-Ix`` and ``--include=x``."""
    return argument == name or argument.startswith(f"{name}=" if name.startswith("--") else name)
