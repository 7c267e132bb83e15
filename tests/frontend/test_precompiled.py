"""Which headers go into a precompiled header, and what happens to those that must not."""

from __future__ import annotations

from pathlib import Path

import pytest

import compile_db
from compile_db.command import CompileCommand
from opscanner import frontend
from opscanner.frontend import directives, precompiled
from opscanner.ir import NodeKind, UnitStatus


def test_includes_under_a_condition_are_not_taken() -> None:
    text = b'#include <a.h>\n#if X\n#include <b.h>\n#endif\n  #  include "c.h"  // why\n'
    assert directives.unconditional_includes(text) == ["<a.h>", '"c.h"']


GIVEN = {b"GOOGLE_CUDA": b"1", b"EMPTY": b"", b"OFF": b"0"}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        (b"GOOGLE_CUDA || TENSORFLOW_USE_ROCM", True),
        (b"(defined(GOOGLE_CUDA) && GOOGLE_CUDA) || (defined(TENSORFLOW_USE_ROCM) && TENSORFLOW_USE_ROCM)", True),
        (b"TENSORFLOW_USE_ROCM && TF_ROCM_VERSION >= 40500", None),
        (b"GOOGLE_CUDA && TENSORFLOW_USE_ROCM", None),
        (b"OFF && UNKNOWN", False),
        (b"!OFF", True),
        (b"!defined EMPTY", False),
        (b"GOOGLE_CUDA == 2", None),
        (b"OFF || (__CUDA_ARCH__ >= 610)", None),
        (b"1", True),
        (b"0", False),
        (b"", None),
        (b"((", None),
        (b"defined(", None),
    ],
)
def test_a_condition_is_decided_where_the_commands_macros_decide_it(expression: bytes, holds: bool | None) -> None:
    assert directives.condition(expression, GIVEN) is holds


def test_includes_are_taken_from_the_branch_that_the_command_chooses() -> None:
    text = b"""
#if GOOGLE_CUDA  // a comment
#include <a.h>
#elif UNKNOWN
#include <b.h>
#else
#include <c.h>
#endif
#ifndef EMPTY
#include <d.h>
#else
#include <e.h>
#endif
#ifdef UNKNOWN
#include <f.h>
#else
#include <g.h>
#endif
#undef GOOGLE_CUDA
#if GOOGLE_CUDA
#include <h.h>
#endif
"""
    assert directives.unconditional_includes(text, macros=GIVEN) == ["<a.h>", "<e.h>"]


def test_macros_set_before_the_last_include_are_those_that_differ_from_the_commands() -> None:
    text = (
        b"#define EMPTY\n#define OFF 1\n#define DIM 3 // three\n#include <a.h>\n#undef X\n#include <b.h>\n#define Y\n"
    )
    assert directives.macros_set(text, GIVEN) == {b"OFF", b"DIM", b"X"}


def test_a_macro_that_only_decides_whether_a_header_may_be_included_does_not_bear_on_its_meaning() -> None:
    text = b"#ifdef NO\n#error do \\\n not\n#endif\n#ifndef MATH\n#define MATH\n#endif\n// X\n#if DIM\n#endif\n"
    assert [directives.mentions(text, {name}) for name in (b"NO", b"MATH", b"X", b"DIM")] == [False, False, False, True]


def test_a_unit_that_sets_a_macro_for_a_shared_header_is_parsed_without_the_precompiled_one(tmp_path: Path) -> None:
    """``inner.h`` asks for WIDE, and only ``c.cpp`` sets it: precompiled, it would give c.cpp the others' float."""
    (tmp_path / "inner.h").write_text(
        "#pragma once\n#ifdef WIDE\nusing real = double;\n#else\nusing real = float;\n#endif\n"
    )
    (tmp_path / "outer.h").write_text('#pragma once\n#include "inner.h"\n')
    toolchain = compile_db.find_toolchain()
    commands = []
    for name, before in (("a.cpp", ""), ("b.cpp", ""), ("c.cpp", "#define WIDE\n"), ("d.cpp", "#define WIDTH 1\n")):
        source = tmp_path / name
        source.write_text(f'{before}#include "outer.h"\nreal {name[0]}(long double x) {{ return x; }}\n')
        entry = CompileCommand(str(tmp_path), str(source), ("clang++", "-c", str(source)), None, name)
        commands.append(compile_db.translate(entry, toolchain))
    results = list(frontend.scan_units(commands, str(tmp_path), jobs=1, cache_dir=str(tmp_path / "cache")))
    made = [path.read_text() for path in (tmp_path / "cache" / "pch").glob("*.h")]
    assert made == [f'#include "{tmp_path}/outer.h"\n']
    formats = {
        result.file: [node.format for node in result.instances[0].nodes if node.kind is NodeKind.CAST]
        for result in results
    }
    assert formats == {"a.cpp": ["float32"], "b.cpp": ["float32"], "c.cpp": ["float64"], "d.cpp": ["float32"]}


def test_a_quoted_header_beside_the_source_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "near.h").write_text("#pragma once\n")
    found = directives.unconditional_includes(b'#include "near.h"\n#include "far.h"\n', str(tmp_path))
    assert found == [f'"{tmp_path}/near.h"', '"far.h"']


def test_headers_that_two_sources_share_are_common_in_the_order_of_their_includes(tmp_path: Path) -> None:
    for name, own in (("a.cu", "x"), ("b.cu", "y")):
        (tmp_path / name).write_text(f"#include <first.h>\n#include <{own}.h>\n#include <second.h>\n")
    files = [str(tmp_path / "a.cu"), str(tmp_path / "b.cu")]
    assert precompiled.common_headers(files) == ["<first.h>", "<second.h>"]


def test_units_that_share_a_header_without_a_guard_parse_without_an_error(tmp_path: Path) -> None:
    """Precompiled, ``open.h`` would be defined a second time by the units' own include."""
    (tmp_path / "open.h").write_text("inline float twice(float x) { return 2 * x; }\n")
    (tmp_path / "closed.h").write_text(
        "#ifndef CLOSED\n#define CLOSED\ninline float half_of(float x) { return x / 2; }\n#endif\n"
    )
    toolchain = compile_db.find_toolchain()
    commands = []
    for name in ("a.cpp", "b.cpp"):
        source = tmp_path / name
        source.write_text('#include "open.h"\n#include "closed.h"\ndouble f(float x) { return twice(half_of(x)); }\n')
        entry = CompileCommand(str(tmp_path), str(source), ("clang++", "-c", str(source)), None, name)
        commands.append(compile_db.translate(entry, toolchain))
    results = list(frontend.scan_units(commands, str(tmp_path), jobs=1, cache_dir=str(tmp_path / "cache")))
    assert [result.status for result in results] == [UnitStatus.OK, UnitStatus.OK]
    made = [path.read_text() for path in (tmp_path / "cache" / "pch").glob("*.h")]
    assert made == [f'#include "{tmp_path}/closed.h"\n']


def test_errors_that_a_precompiled_header_does_not_cause_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "shared.h").write_text("#pragma once\ninline float twice(float x) { return 2 * x; }\n")
    toolchain = compile_db.find_toolchain()
    commands = []
    for name in ("a.cpp", "b.cpp", "c.cpp"):
        source = tmp_path / name
        source.write_text('#include "shared.h"\nfloat f(float x) { return twice(unknown); }\n')
        entry = CompileCommand(str(tmp_path), str(source), ("clang++", "-c", str(source)), None, name)
        commands.append(compile_db.translate(entry, toolchain))
    results = list(frontend.scan_units(commands, str(tmp_path), jobs=1, cache_dir=str(tmp_path / "cache")))
    assert [[d.message for d in result.diagnostics] for result in results] == [
        ["use of undeclared identifier 'unknown'"]
    ] * 3


def test_a_unit_that_conflicts_with_the_header_parses_without_it_even_after_units_with_errors(tmp_path: Path) -> None:
    """The header's ``struct Own`` is in the way of the one that ``d.cpp``, which does not include it, defines."""
    (tmp_path / "shared.h").write_text("#pragma once\nstruct Own {};\n")
    toolchain = compile_db.find_toolchain()
    commands = []
    for name, text in (
        ("a.cpp", '#include "shared.h"\nfloat f(float x) { return unknown; }\n'),
        ("b.cpp", '#include "shared.h"\nfloat g(float x) { return unknown; }\n'),
        ("d.cpp", "struct Own { float x; };\ndouble h(Own o) { return o.x; }\n"),
    ):
        source = tmp_path / name
        source.write_text(text)
        entry = CompileCommand(str(tmp_path), str(source), ("clang++", "-c", str(source)), None, name)
        commands.append(compile_db.translate(entry, toolchain))
    results = list(frontend.scan_units(commands, str(tmp_path), jobs=1, cache_dir=str(tmp_path / "cache")))
    assert [result.status for result in results] == [UnitStatus.ERRORS, UnitStatus.ERRORS, UnitStatus.OK]
