"""A compile database may come from anyone: nothing in it loads code, writes a file or starts a program."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import command_of, parse, write_source

from compile_db import CompileDatabaseError, Toolchain, load, translate
from compile_db.database import make_command
from compile_db.sanitize import sanitize


def cases(text: str) -> list[tuple[str, ...]]:
    """Commands' arguments: cases stand apart by a semicolon or a line's end, arguments by a space."""
    return [tuple(case.split()) for case in re.split(r" ; |\n", text) if case.strip()]


LOADS_CODE = [*cases("""
    -fplugin=evil.so ; -fplugin evil.so ; -fpass-plugin=evil.so ; -load evil.so ; -fplugin-arg-evil-x=1
    -Xclang -load -Xclang evil.so ; -Xclang -fplugin=evil.so ; -Xclang -add-plugin -Xclang evil
    -Xclang -plugin -Xclang evil ; -mllvm -load=evil.so ; -Xclang -mllvm -Xclang -load=evil.so
    -mllvm=-load=evil.so ; -Xanalyzer -load-evil.so ; -B evil ; -Bevil ; -wrapper evil ; -specs=evil ; --specs=evil
    --config evil.cfg ; --config=evil.cfg ; --config-user-dir=evil ; --config-system-dir=evil ; -fuse-ld=evil
    --ld-path=evil ; -ccc-gcc-name evil ; -ccc-install-dir evil ; -resource-dir evil ; -resource-dir=evil
    -include-pch evil.pch ; -include-pch=evil.pch ; -fmodule-file=evil.pcm ; -fmodule-map-file=evil
    -fprebuilt-module-path=evil ; -fmodules ; -fimplicit-modules ; -ivfsoverlay evil.yaml ; -ivfsoverlayevil.yaml
    -vfsoverlay evil ; -cc1 -load evil.so ; -cc1as ; -fintegrated-cc1 ; -Xopenmp-target -fplugin=evil.so
    -fopenmp-targets=evil ; -fembed-offload-object=evil ; -Xarch_device -fplugin=evil.so
    -Xarch_host -fplugin=evil.so ; -Xarch_sm_80 -fplugin=evil.so ; -Xcuda-ptxas evil ; -Xcuda-fatbinary evil
    --ptxas-path=evil ; --cuda-path=evil ; --hip-link ; -fprofile-use=evil ; -fprofile-instr-use=evil
    -fthinlto-index=evil ; -fclangir ; -fsanitize-blacklist=evil ; -fno-integrated-as ; -fno-integrated-cc1
    -Wp,-fplugin=evil.so ; -Xpreprocessor -fplugin=evil.so ; -Wp,-include-pch,evil.pch ; -Wa,--evil
    -Wl,-plugin,evil.so ; -Xassembler evil ; -Xlinker evil ; -include /dev/stdin ; -include /proc/self/fd/0
    -include -fplugin=evil.so ; -include @evil ; -I@evil ; -I -fplugin=evil.so ; @evil.rsp ; -working-directory evil
    -working-directory=evil ; --driver-mode=cl ; --rsp-quoting=windows ; -gen-reproducer
    -fcrash-diagnostics-dir=evil ; -### ; -D -fplugin=evil.so ; -U @evil ; -x ir ; -xpcm
"""), ("-D", "\x00"), ("-DX\x00-fplugin=evil.so",)]  # fmt: skip
WRITES_A_FILE = cases("""
    -o written ; -owritten ; --output=written ; --output written ; -MF written ; -MFwritten ; -MD ; -MMD
    -MD -MF written ; -MJ written ; -MJwritten ; --save-temps ; -save-temps ; -save-temps=obj ; -ftime-trace
    -ftime-trace=written ; -ftime-report ; -fdump-record-layouts ; --serialize-diagnostics written
    -serialize-diagnostics written ; -Xclang -o -Xclang written ; -Xclang -dependency-file -Xclang written
    -Xclang -serialize-diagnostic-file -Xclang written ; -fmodules-cache-path=written ; -fprofile-generate=written
    -fprofile-instr-generate=written ; -fprofile-arcs ; --coverage ; -ftest-coverage ; -fcoverage-mapping
    -fsave-optimization-record ; -foptimization-record-file=written ; -fstack-usage ; -fproc-stat-report=written
    -index-store-path written ; -emit-pch ; -emit-llvm ; -emit-ast ; --precompile ; -dumpdir written
    -dumpbase written ; -aux-info written ; -fdump-tree-all=written ; -gsplit-dwarf ; -gmodules
    -fdebug-compilation-dir=written ; -Wp,-MD,written ; -Wp,-MMD,written,-DOK
    -Xpreprocessor -MF -Xpreprocessor written ; -S ; -E ; -fdiagnostics-add-output=sarif:file=written
    -fdiagnostics-format=sarif-file ; -fopt-info-all=written ; --cuda-include-ptx=all ; -fpch-preprocess
    -fpch-instantiate-templates ; -extract-api --product-name=x ; -H ; -fheader-include-file written
    -header-include-filtering=x ; -fcallgraph-info=su ; -dM ; -via-file-asm ; -fminimize-whitespace
    -print-file-name=x ; -ivfsstatcache written
""")
NVCC_WRITES_OR_RUNS = [*cases("""
    --keep ; -keep -keep-dir written ; --time written ; -odir written ; -ccbin evil ; --compiler-bindir=evil ; --run
    --run-args evil ; -fdevice-time-trace written ; -arbin=evil ; --save-temps
    -Xcompiler -fplugin=evil.so,-o,written ; -ldir evil ; --compiler-options -Xclang,-load,-Xclang,evil.so
    -Xcompiler -MF,written ; --options-file evil ; -optf evil ; -Xcompiler @evil ; -Xcompiler -include-pch,evil.pch
    -Xlinker evil ; -Xarchive=evil ; -include -Xclang,-load ; -include-pch evil.pch ; -x ir
"""), ("-Xcompiler=-Wp\\,-MD\\,written",), ("-std=c++17 -fplugin=evil.so",)]  # fmt: skip

# What may reach libclang from a command, each form in full. Anything else in an answer fails the test.
HARMLESS = re.compile(
    r"-[DU]([^\W\d]|\$).*|-I/.*|-(isystem|iquote|idirafter|isystem-after|cxx-isystem|isysroot|include|imacros)"
    r"|--(sysroot|gcc-toolchain|gcc-install-dir)=/.*|-std=(c|gnu|iso9899:)[+0-9a-z]+|-f[a-z0-9+-]+(=[a-z0-9-]+)?"
    r"|-fP(IC|IE)|-m[a-z0-9.-]+(=[A-Za-z0-9_.+,-]+)?|--target=[A-Za-z0-9_.-]+|-ansi|-pthread|-undef|-nostdinc(\+\+)?"
    r"|-nostdlibinc|--?no-standard-includes",
    re.DOTALL,
)
FORBIDDEN = re.compile(
    r"plugin|load|^-o|^-M|save-temps|time-trace|serial|modul|pch|vfs|config|spec|wrapper|^-B|^@|crash|profile|coverage|dump|mllvm"
    r"|Xclang|cc1|emit|record|resource|driver|working|fuse-ld|openmp-targets|openmp=",
)


def answer(toolchain: Toolchain, arguments: tuple[str, ...]) -> list[str]:
    """What the command itself contributes to clang's arguments."""
    plain = translate(make_command("/d", "a.cpp", ("g++", "-c", "a.cpp")), toolchain).arguments
    found = list(translate(make_command("/d", "a.cpp", ("g++", *arguments, "-c", "a.cpp")), toolchain).arguments)
    for own in plain:
        found.remove(own)
    return found


def assert_harmless(arguments: list[str]) -> None:
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        assert HARMLESS.fullmatch(argument), argument
        assert argument.startswith(("-D", "-U", "-I")) or not FORBIDDEN.search(argument), argument
        position += 1
        if argument in (
            "-isystem",
            "-iquote",
            "-idirafter",
            "-isystem-after",
            "-cxx-isystem",
            "-isysroot",
            "-include",
            "-imacros",
        ):
            assert not arguments[position].startswith(("-", "@", "/dev/", "/proc/"))
            position += 1


@pytest.mark.parametrize("arguments", [*LOADS_CODE, *WRITES_A_FILE], ids=" ".join)
def test_dangerous_arguments_do_not_reach_clang(plain_toolchain: Toolchain, arguments: tuple[str, ...]) -> None:
    try:
        found = answer(plain_toolchain, arguments)
    except CompileDatabaseError:
        return  # refused with a reason: -x ir
    assert set(found) <= {"-DOK"}


@pytest.mark.parametrize("arguments", [*LOADS_CODE, *WRITES_A_FILE, *NVCC_WRITES_OR_RUNS], ids=" ".join)
def test_dangerous_arguments_of_nvcc_do_not_reach_clang(plain_toolchain: Toolchain, arguments: tuple[str, ...]) -> None:
    plain = translate(make_command("/d", "a.cu", ("nvcc", "-c", "a.cu")), plain_toolchain).arguments
    try:
        found = list(
            translate(make_command("/d", "a.cu", ("nvcc", *arguments, "-c", "a.cu")), plain_toolchain).arguments
        )
    except CompileDatabaseError:
        return
    for own in plain:
        if own in found:
            found.remove(own)
    assert set(found) <= {"-DOK"}


@pytest.mark.parametrize("arguments", [*LOADS_CODE, *WRITES_A_FILE], ids=" ".join)
@pytest.mark.parametrize("wrap", ["response file", "Xcompiler", "options file"])
def test_dangerous_arguments_do_not_pass_through_a_file_or_a_wrapper(
    tmp_path: Path, plain_toolchain: Toolchain, arguments: tuple[str, ...], wrap: str
) -> None:
    if any("\0" in item for item in arguments):
        pytest.skip("no file holds it")
    write_source(tmp_path, "")
    write_source(tmp_path, "\n".join(json.dumps(item) for item in arguments), "evil.txt")
    given = {
        "response file": ["@evil.txt"],
        "options file": ["--options-file=evil.txt"],
        "Xcompiler": ["-Xcompiler", ",".join(arguments)],
    }[wrap]
    entry = {"directory": str(tmp_path), "file": "a.cu", "arguments": ["nvcc", *given, "-DSEEN", "-c", "a.cu"]}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    command = load(tmp_path / "compile_commands.json").commands[0]
    try:
        found = translate(command, plain_toolchain).arguments
    except CompileDatabaseError:
        return
    assert not [item for item in found if re.search(r"evil|written|^-MM?D$|save-temps|^-cc1|coverage", item)]


@pytest.mark.parametrize("arguments", WRITES_A_FILE, ids=" ".join)
def test_parsing_a_hostile_command_writes_nothing(
    tmp_path: Path, toolchain: Toolchain, arguments: tuple[str, ...]
) -> None:
    write_source(tmp_path, "int x;\n", "a.cpp")
    before = sorted(os.listdir(tmp_path))
    parse(translate(command_of(tmp_path, "g++", *arguments, "-c", "a.cpp", file="a.cpp"), toolchain))
    assert sorted(os.listdir(tmp_path)) == before


def test_launchers_and_their_environment_are_never_passed_on(plain_toolchain: Toolchain) -> None:
    command = ("env", "CCC_OVERRIDE_OPTIONS=+-fplugin=evil.so", "LD_PRELOAD=evil.so", "g++", "-c", "a.cpp")
    found = translate(make_command("/d", "a.cpp", command), plain_toolchain)
    assert not [item for item in found.arguments if "evil" in item]
    assert len(found.dropped) >= 3


WORDS = [word for group in (*LOADS_CODE, *WRITES_A_FILE, *NVCC_WRITES_OR_RUNS) for word in group]
WORDS += ["-I", "-Iinc", "-isystem", "-D", "-DX=1", "-U", "-include", "-std=c++17", "-std", "-Xcompiler", "-Wp,", "-x"]
WORDS += ["cu", "-arch", "nvcc", "g++", "ccache", "env", "cmake", "-E", "--", "-", "=", ",", "-O3", "-Ofast", "-mavx2"]
WORDS += ["-fopenmp", "-f", "-m", ""]


@settings(max_examples=600, deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from(WORDS), st.text(max_size=12), st.text(max_size=8).map(lambda text: "-" + text)),
        max_size=12,
    )
)
def test_no_command_makes_anything_but_harmless_arguments_or_our_own_error(words: list[str]) -> None:
    assert_harmless(sanitize(tuple(words), "/d", "/d/a.cu").arguments)
    toolchain = Toolchain("12.4", ("/cuda/include",), None, None, None, (), (), ())
    for compiler in ("nvcc", "g++", "ccache"):
        try:
            clang = translate(make_command("/d", "a.cu", (compiler, *words)), toolchain)
        except CompileDatabaseError:
            continue
        assert not [word for word in clang.arguments if "\0" in word]
        assert not {"/d/a.cu", "a.cu"} & {*clang.arguments}


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["file", "directory", "command", "arguments", "output"]), inner, max_size=5
            )
        ),
    )
)
def test_any_json_is_read_or_refused_with_our_own_error(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "compile_commands.json"
    path.write_text(json.dumps(content))
    try:
        database = load(path)
    except CompileDatabaseError as error:
        named = error.where
    else:
        named = database.origin
        assert all(entry.reason for entry in database.skipped)
    assert named.startswith(str(path))
