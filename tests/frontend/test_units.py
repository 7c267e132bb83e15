"""A whole translation unit: its status, errors, missing headers, and what libclang makes hard (L rows)."""

from __future__ import annotations

import dataclasses
import gc
import pickle
from pathlib import Path

import pytest
from snippets import Scan, command_for, scan_file

from compile_db import Toolchain
from opscanner.frontend.scan_unit import Worker
from opscanner.ir import CudaPass, UnitStatus


def test_a_good_unit_says_ok(scan: Scan) -> None:
    result = scan("float f(double d) { return d; }\n").result
    assert (result.status, result.reason, result.diagnostics) == (UnitStatus.OK, "", ())
    assert (result.file, result.cuda_pass, result.functions) == ("unit.cu", CudaPass.DEVICE, 1)
    assert result.cursors > 0
    assert result.dependencies == ("unit.cu",)


def test_functions_that_hold_an_error_are_marked_and_the_others_are_not(scan: Scan) -> None:
    scanned = scan("""
    float good(double d) { return d; }
    float bad(double d) {
      float x = d;
      return unknown(x);
    }
    """)
    result = scanned.result
    assert result.status is UnitStatus.ERRORS
    assert {i.name: i.has_error for i in result.instances} == {"good": False, "bad": True}
    assert {(d.severity, d.category, d.file, d.line) for d in result.diagnostics} == {
        ("error", "undeclared", "unit.cu", 4)
    }
    assert (result.functions, result.functions_with_error) == (2, 1)


def test_an_error_in_device_code_is_counted_apart(scan: Scan) -> None:
    result = scan("""
    __global__ void kernel(float* p) { *p = unknown(1); }
    float host() { return unknown(2); }
    """).result
    assert (result.functions_with_error, result.device_functions_with_error) == (2, 1)


def test_an_instance_whose_body_clang_refuses_is_counted_and_marked(scan: Scan) -> None:
    """clang drops a body whose returned value is an error: without a mark the instance would be missing in silence."""
    scanned = scan("""
    template <class T> __device__ float inner(T x) { return x.nothing; }
    __global__ void outer(float* p) { p[0] = inner(p[1]); }
    """)
    assert scanned.result.status is UnitStatus.ERRORS
    assert {i.name: i.has_error for i in scanned.result.instances} == {"outer": False, "inner": True}
    assert (scanned.result.functions_with_error, scanned.result.device_functions_with_error) == (1, 1)


def test_with_a_header_missing_the_rest_is_still_walked(scan: Scan) -> None:
    """C30: clang stops at the first missing header unless told to go on."""
    scanned = scan("""
    #include <not/there.h>
    float f(double d) { return d; }  // cast
    #include "neither.h"
    Unknown g(Unknown u) { return u; }
    float h(double d) { return d; }  // cast
    """)
    result = scanned.result
    assert result.status is UnitStatus.ERRORS
    assert result.missing_headers == ("neither.h", "not/there.h")
    assert {d.category for d in result.diagnostics} == {"missing_header", "undeclared"}
    assert {c.line for c in scanned.casts()} == {2, 5}


def test_equal_errors_are_counted_together(scan: Scan) -> None:
    result = scan("float f() { return unknown + unknown + unknown; }\n").result
    assert [d.count for d in result.diagnostics] == [3]


def test_a_file_that_is_not_there_is_skipped_with_a_reason(tmp_path: Path, shim: Toolchain) -> None:
    result = scan_file(tmp_path, command_for(tmp_path / "gone.cu", shim))
    assert (result.status, result.file) == (UnitStatus.SKIPPED, "gone.cu")
    assert "does not exist" in result.reason


def test_a_command_that_clang_refuses_is_skipped_with_a_reason(tmp_path: Path, shim: Toolchain) -> None:
    (tmp_path / "unit.cu").write_text("float f(double d) { return d; }\n")
    command = command_for(tmp_path / "unit.cu", shim)
    result = scan_file(tmp_path, dataclasses.replace(command, arguments=(*command.arguments, "-x", "nonsense")))
    assert result.status is UnitStatus.SKIPPED
    assert "libclang gave no translation unit" in result.reason


# -- what libclang makes hard ------------------------------------------------------------------------------------------


def test_cursor_kinds_of_cpp20_are_walked_past(golden: Scan) -> None:
    """L3: concepts, friends and spaceships have kinds at which ``cursor.kind`` of older bindings raises."""
    golden(
        """
        #include <bit>
        #include <compare>
        template <class T> concept Small = sizeof(T) <= 4;
        struct S {
          double d;
          friend float peek(S s) { return s.d; }
          auto operator<=>(const S&) const = default;
        };
        template <Small T> float f(T t, double d) requires (sizeof(T) == 4) {
          return t + d;  // cast: float32 -> float64 implicit; float64 -> float32 implicit
        }
        float g(double d) {
          unsigned u = std::bit_cast<unsigned>(1.f);
          return f(1.f, d);
        }
        """,
        name="unit.cpp",
        standard="c++20",
    )


def test_builtin_headers_are_found(golden: Scan) -> None:
    """L7: a libclang without its own ``stddef.h`` sees next to nothing."""
    golden(
        """
        #include <stddef.h>
        #include <stdint.h>
        #include <float.h>
        float f(double d, size_t n) {
          return d;  // cast: float64 -> float32 implicit
        }
        """,
        name="unit.cpp",
    )


def test_a_scan_keeps_plain_values_only(scan: Scan) -> None:
    """L11: one kept cursor pins the memory of its whole translation unit."""
    result = scan("template <class T> float f(T t) { return t; }\nfloat g(double d) { return f(d); }\n").result
    assert pickle.loads(pickle.dumps(result)) == result


def test_no_cursor_outlives_the_scan_of_its_unit(tmp_path: Path, shim: Toolchain) -> None:
    from opscanner.frontend import libclang

    (tmp_path / "unit.cu").write_text("float f(double d) { auto l = [=](float x) { return x * d; }; return l(1); }\n")
    worker = Worker(str(tmp_path), {})
    worker.scan(command_for(tmp_path / "unit.cu", shim), None)
    gc.collect()
    assert [o for o in gc.get_objects() if isinstance(o, (libclang.CXCursor, libclang.CXType))] == []


@pytest.mark.parametrize(
    "text",
    [
        "template <class T> struct S { T f( };\nfloat g(double d) { return d; }\n",
        "float g(double d) { return d\n",
        "namespace { struct { auto x = [](auto y) { return y.; }; } z; }\nfloat g(double d) { return d; }\n",
        "template <class T> float f(T t) { return f(f(t; }\nfloat g(double d) { return f(d); }\n",
        "float g(double d) { switch (d) { case 1.0: return d; } }\n",
    ],
)
def test_incomplete_code_gives_errors_and_no_crash(scan: Scan, text: str) -> None:
    """L23."""
    result = scan(text).result
    assert result.status is UnitStatus.ERRORS
    assert "walk failed" not in result.reason


def test_an_empty_unit_gives_nothing(scan: Scan) -> None:
    result = scan("\n").result
    assert (result.status, result.instances) == (UnitStatus.OK, ())


def test_a_root_with_a_trailing_slash_and_a_link_names_files_alike(tmp_path: Path, shim: Toolchain) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "unit.cu").write_text('#include "sub/../inner.h"\nfloat f(double d) { return inner(d); }\n')
    (root / "sub").mkdir()
    (root / "inner.h").write_text("inline float inner(double d) { return d + 1; }\n")
    result = scan_file(root, command_for(root / "unit.cu", shim))
    assert sorted({i.file for i in result.instances}) == ["inner.h", "unit.cu"]


def test_a_second_unit_of_a_worker_does_not_bring_what_the_first_one_did(tmp_path: Path, shim: Toolchain) -> None:
    (tmp_path / "both.h").write_text("#pragma once\ninline float both(double d) { return d * 0.5; }\n")
    for name in "ab":
        (tmp_path / f"{name}.cu").write_text(f'#include "both.h"\nfloat {name}(double d) {{ return both(d); }}\n')
    worker = Worker(str(tmp_path), {})
    first, second = (worker.scan(command_for(tmp_path / f"{name}.cu", shim), None) for name in "ab")
    assert {i.name for i in first.instances} == {"a", "both"}
    assert {i.name for i in second.instances} == {"b"}
    both = next(i.key for i in first.instances if i.name == "both")
    assert both in {reach.key for reach in second.reach}
    assert second.functions == 2


def test_keys_are_equal_in_every_unit(tmp_path: Path, shim: Toolchain) -> None:
    (tmp_path / "both.h").write_text("template <class T> float both(T d) { return d * 0.5; }\n")
    for name in "ab":
        (tmp_path / f"{name}.cu").write_text(
            f'#include "both.h"\nfloat {name}(double d, float f) {{ return both(d) + both(f); }}\n'
        )
    keys = []
    for name in "ab":
        result = scan_file(tmp_path, command_for(tmp_path / f"{name}.cu", shim))
        keys.append({(i.bindings, i.key) for i in result.instances if i.name == "both"})
    assert keys[0] == keys[1]
    assert len(keys[0]) == 2
