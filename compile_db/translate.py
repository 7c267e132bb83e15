"""A compile command as libclang takes it: one pure function."""

from __future__ import annotations

import re
from typing import Literal

from compile_db.architectures import DEFAULT_ARCHITECTURE, newest_known
from compile_db.command import ClangCommand, CompileCommand, CudaPass, DroppedArgument, Language
from compile_db.errors import CompileDatabaseError
from compile_db.launchers import program_name, strip_launchers
from compile_db.nvcc import read_nvcc_arguments
from compile_db.sanitize import Sanitized, sanitize
from compile_db.toolchain import Toolchain

LANGUAGE_OF_OPTION: dict[str, Language] = {
    "cu": "cuda", "cuda": "cuda", "c++": "c++", "c++-header": "c++", "c": "c", "c-header": "c", "cpp-output": "c++",
    "c++-cpp-output": "c++", "cuda-cpp-output": "cuda",
}  # fmt: skip
LANGUAGE_OF_SUFFIX: dict[str, Language] = {".cu": "cuda", ".cuh": "cuda", ".c": "c"}
SEPARATE = {"-isystem", "-iquote", "-idirafter", "-isystem-after", "-cxx-isystem", "-isysroot", "-include", "-imacros"}
CUDA_FOLDER = re.compile(
    r"/(cuda(-\d+(\.\d+)?)?|cuda_toolkit|nvidia/(cuda_\w+|cu\d+))(/targets/[^/]+)?/include(/cccl)?/?$"
)
LANGUAGE_OF_STANDARD = {"c++": re.compile(r"(gnu|c)\+\+"), "c": re.compile(r"(gnu|c|iso9899:)\d")}


def translate(
    command: CompileCommand, toolchain: Toolchain, cuda_pass: Literal["device", "host"] = "device"
) -> ClangCommand:
    """Arguments for libclang's parse of one entry, and what was left out.

    ``nvcc -gencode arch=compute_86,code=sm_86 -Iinc -Xcompiler -fPIC -c a.cu`` gives ``-x cuda --cuda-device-only
    --cuda-gpu-arch=sm_86 ... -I/dir/inc -fPIC``. Sources that are not CUDA have the pass ``none``. The result depends
    on the arguments alone, but for one look whether a file named by ``-include`` stands in the entry's directory.

    Raises
    ------
    CompileDatabaseError
        The entry holds no compiler, or is in a language other than C, C++ and CUDA.
    """
    launchers, own = strip_launchers(command.arguments)
    if not own:
        raise CompileDatabaseError("no compiler in the command", where=command.origin, hint="look at this entry")
    dropped = [DroppedArgument(launcher, "launcher") for launcher in launchers if launcher]
    arguments, architectures = own[1:], []
    if is_nvcc(own[0]):
        read = read_nvcc_arguments(arguments)
        arguments, architectures = tuple(read.host), read.architectures
        dropped += read.dropped
    sanitized = sanitize(arguments, command.directory, command.file)
    language = _language(sanitized, command)
    kept, uses_cuda = _matching(sanitized, language, toolchain)
    if language == "cuda":
        wanted = newest_known([*architectures, *sanitized.architectures], toolchain.llvm_major)
        start = _cuda_arguments(toolchain, cuda_pass, wanted or DEFAULT_ARCHITECTURE)
    else:
        start = ["-x", language]
    end = _cuda_search_path(toolchain) if language == "cuda" or uses_cuda else []
    common = _common_arguments(toolchain, language)
    return ClangCommand(
        file=command.file,
        directory=command.directory,
        arguments=(*start, *common, *kept, *end, *command.trusted_arguments),
        language=language,
        cuda_pass=cuda_pass if language == "cuda" else "none",
        configuration=command.configuration,
        dropped=(*dropped, *sanitized.dropped),
    )


def is_nvcc(compiler: str) -> bool:
    """Whether the command speaks nvcc's dialect: ``/usr/local/cuda/bin/nvcc``, ``nvcc_wrapper``."""
    return re.match(r"nvcc|.*-nvcc$", program_name(compiler)) is not None


def _language(sanitized: Sanitized, command: CompileCommand) -> Language:
    suffix = re.search(r"\.[^./]*$", command.file)
    spelled = suffix[0] if suffix else ""
    if sanitized.language is not None and sanitized.language != "none":
        language = LANGUAGE_OF_OPTION.get(sanitized.language)
        if language is None:
            raise CompileDatabaseError(
                f"language {sanitized.language!r} of {command.file} is not C, C++ or CUDA", where=command.origin,
                hint="leave the file out with --only",
            )  # fmt: skip
        # nvcc's -x cu is CUDA; "-x c++ a.cu" is how some builds make clang or hipcc read CUDA as C++
        return language
    if spelled in (".hip", ".s", ".S", ".asm", ".m", ".mm", ".f", ".f90", ".rc", ".def", ".ispc", ".cl", ".metal"):
        raise CompileDatabaseError(
            f"{command.file} is not C, C++ or CUDA", where=command.origin, hint="leave the file out with --only"
        )
    return LANGUAGE_OF_SUFFIX.get(spelled, "c++")


def _matching(sanitized: Sanitized, language: Language, toolchain: Toolchain) -> tuple[list[str], bool]:
    """What may pass without harm to this language's parse, and whether CUDA's headers were on the search path.

    The entry's own CUDA folder gives way to the toolchain's: two CUDA versions on one path do not parse.
    """
    family = "c" if language == "c" else "c++"
    kept: list[str] = []
    if sanitized.standard is not None:
        if LANGUAGE_OF_STANDARD[family].match(sanitized.standard):
            kept.append(f"-std={sanitized.standard}")
        else:
            sanitized.dropped.append(DroppedArgument(f"-std={sanitized.standard}", f"not a standard of {language}"))
    uses_cuda = False
    pending = iter(sanitized.arguments)
    for argument in pending:
        separate = argument in SEPARATE
        value = next(pending) if separate else argument[2:]
        if (separate or argument.startswith("-I")) and CUDA_FOLDER.search(value):
            uses_cuda = True
            if toolchain.cuda_version is not None:
                shown = f"{argument} {value}" if separate else argument
                sanitized.dropped.append(DroppedArgument(shown, "the CUDA headers of this scan stand in"))
                continue
        if separate:
            kept += [argument, value]
        elif language == "cuda" and (argument.startswith("--target=") or argument == "-fopenmp"):
            sanitized.dropped.append(DroppedArgument(argument, "chosen by the CUDA pass"))
        else:
            kept.append(argument)
    return kept, uses_cuda


def _common_arguments(toolchain: Toolchain, language: Language) -> list[str]:
    # libclang-ng's cindex puts its bundled libc++ in front of everything unless some "-isystem" is there (22.1.4.2).
    arguments = [
        "--no-default-config",
        "-Wno-everything",
        "-ferror-limit=0",
        "-isystem",
        f"{toolchain.shim_dir}/nothing",
    ]
    if toolchain.resource_dir is not None:
        arguments += ["-resource-dir", toolchain.resource_dir]
    return arguments + ([] if language == "c" else list(toolchain.cxx_arguments))


def _cuda_arguments(toolchain: Toolchain, cuda_pass: CudaPass, architecture: str) -> list[str]:
    """The pass, and CUDA without clang's own search for an installation.

    ``-nocudainc -nocudalib`` and our own include paths serve wheels and toolkits alike. clang then does not learn the
    version, and looks for ``cudaConfigureCall``, which CUDA dropped in 9.2: hence ``-target-sdk-version``.
    """
    version = toolchain.cuda_version or "12.0"
    wrapper = "__clang_cuda_runtime_wrapper.h" if toolchain.cuda_version else f"{toolchain.shim_dir}/cuda_shim.h"
    return [
        "-x", "cuda", f"--cuda-{cuda_pass}-only", f"--cuda-gpu-arch={architecture}", "--no-cuda-version-check",
        "-nocudainc", "-nocudalib", "-Xclang", f"-target-sdk-version={version}", "-include", wrapper,
    ]  # fmt: skip


def _cuda_search_path(toolchain: Toolchain) -> list[str]:
    """What ``-nocudainc`` left out, after the entry's own directories; stand-ins for missing headers come last."""
    if toolchain.cuda_version is None:
        return ["-idirafter", f"{toolchain.shim_dir}/no_cuda"]
    arguments: list[str] = []
    for directory in toolchain.cuda_include_dirs:
        arguments += ["-isystem", directory]
    return [*arguments, "-idirafter", f"{toolchain.shim_dir}/cuda_libraries"]
