"""nvcc's arguments as host arguments and architectures: one table, one reader.

Option names are those of ``nvcc --help`` of CUDA 11.8 to 13.0, long and short. A value may be joined with ``=`` or
be the next argument, whatever the option's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto

from compile_db.architectures import in_specification
from compile_db.command import DroppedArgument


class Becomes(Enum):
    """What an nvcc option turns into."""

    NOTHING = auto()  # dropped with the row's reason
    HOST_ARGUMENTS = auto()  # the value, split at commas, is read as host arguments
    ARCHITECTURE = auto()  # the value names architectures
    EACH = auto()  # row.arguments once for each comma-separated item of the value, {} filled in
    ARGUMENTS = auto()  # row.arguments, {} filled in
    FILES_OF_OPTIONS = auto()  # response files that nobody has expanded


@dataclass(frozen=True)
class NvccOption:
    """One row: the names, whether a value follows, what comes of it and why."""

    names: tuple[str, ...]
    takes_value: bool
    becomes: Becomes
    arguments: tuple[str, ...] = ()
    reason: str = ""
    only_for: str | None = None  # the value for which ``arguments`` hold


def _drop(reason: str, names: str, *, value: bool = False) -> list[NvccOption]:
    return [NvccOption(tuple(row.split("|")), value, Becomes.NOTHING, reason=reason) for row in names.split()]


PHASE = "selects a phase or product of nvcc; clang only parses"
OUTPUT = "writes a file"
LINK = "for the linker"
DEVICE_CODE = "device code generation; the source's types do not depend on it"
MESSAGES = "nvcc's own messages"
ALWAYS_ON = "clang allows this always"
TOOLS = "chooses or feeds another program"

ROWS: tuple[NvccOption, ...] = (
    *_drop(PHASE, "--cuda|-cuda --cubin|-cubin --fatbin|-fatbin --ptx|-ptx --optix-ir|-optix-ir --ltoir|-ltoir"),
    *_drop(PHASE, "--preprocess|-E --compile|-c --device-c|-dc --device-w|-dw --device-link|-dlink --link|-link"),
    *_drop(PHASE, "--lib|-lib --run|-run --fdevice-syntax-only|-fdevice-syntax-only --dryrun|-dryrun"),
    *_drop(PHASE, "--list-gpu-code|-code-ls --list-gpu-arch|-arch-ls --help|-h --version|-V --verbose|-v"),
    *_drop(OUTPUT, "--generate-dependencies|-M --generate-nonsystem-dependencies|-MM"),
    *_drop(OUTPUT, "--generate-dependencies-with-compile|-MD --generate-nonsystem-dependencies-with-compile|-MMD"),
    *_drop(OUTPUT, "--generate-dependency-targets|-MP --objdir-as-tempdir|-objtemp --save-temps|-save-temps"),
    *_drop(OUTPUT, "--keep|-keep --clean-targets|-clean"),
    *_drop(OUTPUT, "--dependency-output|-MF --dependency-target-name|-MT -MQ --output-file|-o", value=True),
    *_drop(OUTPUT, "--output-directory|-odir --keep-dir|-keep-dir --time|-time", value=True),
    *_drop(OUTPUT, "--fdevice-time-trace|-fdevice-time-trace", value=True),
    *_drop(LINK, "--shared|-shared --no-device-link|-nodlink --augment-host-linker-script|-aug-hls"),
    *_drop(LINK, "--relocatable-link|-r"),
    *_drop(LINK, "--library|-l --library-path|-L --cudart|-cudart --cudadevrt|-cudadevrt", value=True),
    *_drop(LINK, "--linker-options|-Xlinker --archive-options|-Xarchive --nvlink-options|-Xnvlink", value=True),
    *_drop(LINK, "--host-linker-script|-hls --target-directory|-target-dir", value=True),
    *_drop(TOOLS, "--compiler-bindir|-ccbin --archiver-binary|-arbin --libdevice-directory|-ldir", value=True),
    *_drop(TOOLS, "--input-drive-prefix|-idp --dependency-drive-prefix|-ddp --drive-prefix|-dp", value=True),
    *_drop(TOOLS, "--run-args|-run-args --threads|-t --split-compile|-split-compile", value=True),
    *_drop(TOOLS, "--split-compile-extended|-split-compile-extended --jump-table-density|-jtd", value=True),
    *_drop(TOOLS, "--use-local-env|-use-local-env --force-cl-env-setup|-force-cl-env-setup --jobserver|-jobserver"),
    *_drop(TOOLS, "--allow-unsupported-compiler|-allow-unsupported-compiler --dont-use-profile|-noprof"),
    *_drop(TOOLS, "--forward-unknown-to-host-compiler|-forward-unknown-to-host-compiler"),
    *_drop(TOOLS, "--forward-unknown-to-host-linker|-forward-unknown-to-host-linker"),
    *_drop(TOOLS, "--forward-unknown-opts|-forward-unknown-opts"),
    *_drop(DEVICE_CODE, "--profile|-pg --debug|-g --device-debug|-G --generate-line-info|-lineinfo"),
    *_drop(DEVICE_CODE, "--dlink-time-opt|-dlto --lto|-lto --gen-opt-lto|-gen-opt-lto"),
    *_drop(DEVICE_CODE, "--extra-device-vectorization|-extra-device-vectorization"),
    *_drop(DEVICE_CODE, "--keep-device-functions|-keep-device-functions --source-in-ptx|-src-in-ptx"),
    *_drop(DEVICE_CODE, "--restrict|-restrict --extensible-whole-program|-ewp --no-compress|-no-compress"),
    *_drop(DEVICE_CODE, "--qpp-config|-qpp-config --compile-as-tools-patch|-astoolspatch"),
    *_drop(DEVICE_CODE, "--relocatable-ptx|-reloc-ptx --no-align-double"),
    *_drop(DEVICE_CODE, "--no-host-device-initializer-list|-nohdinitlist"),
    *_drop(DEVICE_CODE, "--no-host-device-move-forward|-nohdmoveforward"),
    *_drop(DEVICE_CODE, "--ptxas-options|-Xptxas --optimize|-O --Ofast-compile|-Ofc --dopt|-dopt", value=True),
    *_drop(DEVICE_CODE, "--optimization-info|-opt-info --maxrregcount|-maxrregcount --entries|-e", value=True),
    *_drop(DEVICE_CODE, "--relocatable-device-code|-rdc --prec-div|-prec-div --prec-sqrt|-prec-sqrt", value=True),
    *_drop(DEVICE_CODE, "--ftz|-ftz --sanitize|-sanitize --compress-mode|-compress-mode", value=True),
    *_drop(DEVICE_CODE, "--device-stack-protector|-device-stack-protector --frandom-seed|-frandom-seed", value=True),
    *_drop(DEVICE_CODE, "--static-global-template-stub|-static-global-template-stub -Xfatbin -Xcicc", value=True),
    *_drop(DEVICE_CODE, "--device-entity-has-hidden-visibility|-device-entity-has-hidden-visibility", value=True),
    *_drop(MESSAGES, "--disable-warnings|-w --Wreorder|-Wreorder --resource-usage|-res-usage"),
    *_drop(MESSAGES, "--Wdefault-stream-launch|-Wdefault-stream-launch"),
    *_drop(MESSAGES, "--Wmissing-launch-bounds|-Wmissing-launch-bounds"),
    *_drop(MESSAGES, "--Wext-lambda-captures-this|-Wext-lambda-captures-this"),
    *_drop(MESSAGES, "--Wno-deprecated-declarations|-Wno-deprecated-declarations"),
    *_drop(MESSAGES, "--Wno-deprecated-gpu-targets|-Wno-deprecated-gpu-targets"),
    *_drop(MESSAGES, "--display-error-number|-err-no --no-display-error-number|-no-err-no"),
    *_drop(MESSAGES, "--diag-error|-diag-error --diag-suppress|-diag-suppress --diag-warn|-diag-warn", value=True),
    *_drop(MESSAGES, "--diag_error --diag_suppress --diag_warning --diag_default --diag_remark", value=True),
    *_drop(MESSAGES, "--Werror|-Werror --brief-diagnostics|-brief-diag -Xcudafe", value=True),
    *_drop(ALWAYS_ON, "--expt-relaxed-constexpr|-expt-relaxed-constexpr --extended-lambda|-extended-lambda"),
    *_drop(ALWAYS_ON, "--expt-extended-lambda|-expt-extended-lambda"),
    NvccOption(("--compiler-options", "-Xcompiler"), True, Becomes.HOST_ARGUMENTS),
    NvccOption(("--gpu-architecture", "-arch"), True, Becomes.ARCHITECTURE),
    NvccOption(("--gpu-code", "-code"), True, Becomes.ARCHITECTURE),
    NvccOption(("--generate-code", "-gencode"), True, Becomes.ARCHITECTURE),
    NvccOption(("--define-macro", "-D"), True, Becomes.EACH, ("-D{}",)),
    NvccOption(("--undefine-macro", "-U"), True, Becomes.EACH, ("-U{}",)),
    NvccOption(("--include-path", "-I"), True, Becomes.EACH, ("-I", "{}")),
    NvccOption(("--system-include", "-isystem"), True, Becomes.EACH, ("-isystem", "{}")),
    NvccOption(("--pre-include", "-include"), True, Becomes.EACH, ("-include", "{}")),
    NvccOption(("--std", "-std"), True, Becomes.ARGUMENTS, ("-std={}",)),
    NvccOption(("--x", "-x"), True, Becomes.ARGUMENTS, ("-x", "{}")),
    NvccOption(("--machine", "-m"), True, Becomes.ARGUMENTS, ("-m{}",)),
    NvccOption(("--m64", "-m64"), False, Becomes.ARGUMENTS, ("-m64",)),
    NvccOption(("--no-exceptions", "-noeh"), False, Becomes.ARGUMENTS, ("-fno-exceptions",)),
    NvccOption(("--ftemplate-depth", "-ftemplate-depth"), True, Becomes.ARGUMENTS, ("-ftemplate-depth={}",)),
    *_drop(MESSAGES, "--ftemplate-backtrace-limit|-ftemplate-backtrace-limit", value=True),
    NvccOption(("--use_fast_math", "-use_fast_math"), False, Becomes.ARGUMENTS, ("-fgpu-approx-transcendentals",)),
    NvccOption(("--fmad", "-fmad"), True, Becomes.ARGUMENTS, ("-ffp-contract=off",), "clang's default", "false"),
    NvccOption(
        ("--default-stream", "-default-stream"), True, Becomes.ARGUMENTS,
        ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1",), "the default of the CUDA runtime", "per-thread",
    ),
    NvccOption(("--options-file", "-optf"), True, Becomes.FILES_OF_OPTIONS, reason="option file that was not read"),
)  # fmt: skip
BY_NAME = {name: row for row in ROWS for name in row.names}
# Short options whose value may follow without a space or "=".
JOINED = re.compile(r"^(-isystem|-include|-std|-D|-U|-I|-l|-L|-O|-x|-t|-m)([^=].*)$")


@dataclass
class NvccArguments:
    """Host arguments in order, architectures as written, and what was dropped."""

    host: list[str] = field(default_factory=list)
    architectures: list[str] = field(default_factory=list)
    dropped: list[DroppedArgument] = field(default_factory=list)


def read_nvcc_arguments(arguments: tuple[str, ...]) -> NvccArguments:
    """nvcc's arguments (its own name left out) as arguments of a host compiler.

    ``("-gencode", "arch=compute_80,code=sm_80", "-Xcompiler=-fPIC,-DX")`` gives host ``["-fPIC", "-DX"]`` and
    architectures ``["compute_80", "sm_80"]``. What the table does not know goes to the host arguments, as
    ``-forward-unknown-to-host-compiler`` would have it: the allow-list there decides.
    """
    result = NvccArguments()
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        row, value = _row_of(argument)
        if row is None:
            result.host.append(argument)
            continue
        shown = argument
        if row.takes_value and value is None:
            if position == len(arguments):
                result.dropped.append(DroppedArgument(argument, "its value is missing"))
                break
            value = arguments[position]
            shown = f"{argument} {value}"
            position += 1
        _apply(row, value, shown, result)
    return result


def _row_of(argument: str) -> tuple[NvccOption | None, str | None]:
    """The table's row, and the value where it is joined."""
    name, equals, value = argument.partition("=")
    row = BY_NAME.get(name)
    if row is not None:
        return row, value if equals else None
    joined = JOINED.match(argument)
    if joined and joined[1] in BY_NAME:
        return (None, None) if joined[1] == "-m" and not joined[2].isdigit() else (BY_NAME[joined[1]], joined[2])
    return None, None


def _apply(row: NvccOption, value: str | None, shown: str, result: NvccArguments) -> None:
    if not row.takes_value and value == "false":
        result.dropped.append(DroppedArgument(shown, "switched off"))
        return
    text = value or ""
    match row.becomes:
        case Becomes.NOTHING | Becomes.FILES_OF_OPTIONS:
            result.dropped.append(DroppedArgument(shown, row.reason))
        case Becomes.HOST_ARGUMENTS:
            result.host += [item for item in _items(text) if item]
        case Becomes.ARCHITECTURE:
            found = in_specification(text)
            result.architectures += found
            if not found:
                result.dropped.append(DroppedArgument(shown, "names no architecture"))
        case Becomes.EACH:
            for item in _items(text):
                result.host += [part.replace("{}", item) for part in row.arguments]
        case Becomes.ARGUMENTS:
            if row.only_for is not None and text != row.only_for:
                result.dropped.append(DroppedArgument(shown, row.reason))
            else:
                result.host += [part.replace("{}", text) for part in row.arguments]


def _items(text: str) -> list[str]:
    """Comma-separated items; a comma after a backslash, in quotes or in brackets does not separate."""
    items, current, depth, quote, position = [], "", 0, "", 0
    while position < len(text):
        letter = text[position]
        if letter == "\\" and text[position + 1 : position + 2] == ",":
            letter, position = ",", position + 1
            current += letter
        elif letter == "," and depth == 0 and not quote:
            items.append(current)
            current = ""
        else:
            if letter in "\"'" and (not quote or quote == letter):
                quote = "" if quote else letter
            depth += (letter in "([{") - (letter in ")]}") if not quote else 0
            current += letter
        position += 1
    items.append(current)
    return items
