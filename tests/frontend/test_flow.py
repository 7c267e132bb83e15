"""Def-use edges inside one function: branches, loops, reductions, memory.

Edges are named by the line and the operation at either end, as in ``("2 r", "8 return")``.
"""

from __future__ import annotations

import pytest
from snippets import Scan, flows

from opscanner.ir import EdgeKind, NodeKind


def test_a_value_flows_through_definitions_casts_and_arithmetic(scan: Scan) -> None:
    scanned = scan("""
    float f(c10::Half h, float x) {
      float a = h;
      double b = a * x;
      return b;
    }
    """)
    assert scanned.edges(scanned.instance("f")) == {
        ("1 h", "2 conversion_function"),
        ("2 conversion_function", "2 a"),
        ("2 a", "3 *"),
        ("1 x", "3 *"),
        ("3 *", "3 implicit"),
        ("3 implicit", "3 b"),
        ("3 b", "4 implicit"),
        ("4 implicit", "4 return"),
    }


def test_definitions_of_both_branches_reach_a_use_behind_them(scan: Scan) -> None:
    scanned = scan("""
    float f(bool c, float x, float y) {
      float r = x;
      if (c)
        r = y;
      else
        r = -x;
      return r;
    }
    """)
    into = {source for source, target in scanned.edges(scanned.instance("f")) if target == "7 return"}
    assert into == {"4 r", "6 r"}


def test_a_definition_before_a_branch_reaches_past_one_that_does_not_assign(scan: Scan) -> None:
    scanned = scan("""
    float f(bool c, float x, float y) {
      float r = x;
      if (c) r = y;
      return r;
    }
    """)
    into = {source for source, target in scanned.edges(scanned.instance("f")) if target == "4 return"}
    assert into == {"2 r", "3 r"}


def test_a_branch_that_returns_does_not_reach_what_follows(scan: Scan) -> None:
    scanned = scan("""
    float f(bool c, float x, float y) {
      float r = x;
      if (c) {
        r = y;
        return r;
      }
      return r;
    }
    """)
    edges = scanned.edges(scanned.instance("f"))
    assert {source for source, target in edges if target == "7 return"} == {"2 r"}
    assert {source for source, target in edges if target == "5 return"} == {"4 r"}


def test_definitions_of_every_case_of_a_switch_reach_a_use_behind_it(scan: Scan) -> None:
    scanned = scan("""
    float f(int n, float x, float y) {
      float r;
      switch (n) {
        case 0: r = x; break;
        case 1: r = y; break;
        default: r = 0.f;
      }
      return r;
    }
    """)
    into = {source for source, target in scanned.edges(scanned.instance("f")) if target == "8 return"}
    assert into == {"4 r", "5 r", "6 r"}


def test_an_inner_variable_of_the_same_name_is_another_one(scan: Scan) -> None:
    scanned = scan("""
    float f(float x, float y) {
      float r = x;
      { float r = y; r += x; }
      return r;
    }
    """)
    into = {source for source, target in scanned.edges(scanned.instance("f")) if target == "4 return"}
    assert into == {"2 r"}


def test_a_sum_round_a_loop_is_a_reduction_with_its_accumulator(scan: Scan) -> None:
    scanned = scan("""
    double f(const float* p, int n) {
      double sum = 0;
      for (int i = 0; i < n; i++) {
        sum += p[i];
      }
      return sum;
    }
    """)
    instance = scanned.instance("f")
    (reduction,) = scanned.nodes_of(instance, NodeKind.REDUCTION)
    assert (reduction.line, reduction.operation, reduction.format, reduction.accumulator) == (
        4,
        "+",
        "float64",
        "float64",
    )
    assert scanned.edges(instance, EdgeKind.LOOP_CARRIED) == {("4 sum", "4 +")}
    assert {source for source, target in scanned.edges(instance) if target == "6 return"} == {"2 sum", "4 sum"}


@pytest.mark.parametrize(
    ("statement", "operation"),
    [
        ("sum += p[i];", "+"),
        ("sum = sum + p[i];", "+"),
        ("sum = p[i] + sum;", "+"),
        ("sum -= p[i];", "-"),
        ("sum *= p[i];", "*"),
        ("sum = fmaxf(sum, p[i]);", "fmax"),
        ("sum = max(sum, p[i]);", "max"),
        ("sum = sum > p[i] ? sum : p[i];", "?:"),
    ],
)
def test_ways_to_write_a_reduction(scan: Scan, statement: str, operation: str) -> None:
    scanned = scan(f"""
    __global__ void f(float* p, int n) {{
      float sum = p[0];
      for (int i = 1; i < n; i++) {statement}
      p[0] = sum;
    }}
    """)
    found = [(n.line, n.operation, n.accumulator) for n in scanned.nodes(NodeKind.REDUCTION)]
    assert found == [(3, operation, "float32")]


def test_a_reduction_of_half_into_half_says_so(scan: Scan) -> None:
    scanned = scan("""
    c10::Half f(const c10::Half* p, int n) {
      c10::Half sum = p[0];
      for (int i = 1; i < n; i++) sum += p[i];
      return sum;
    }
    """)
    (reduction,) = scanned.nodes(NodeKind.REDUCTION)
    assert (reduction.format, reduction.accumulator) == ("float16", "float16")


def test_a_float_sum_of_doubles_is_computed_wide_and_held_narrow(scan: Scan) -> None:
    scanned = scan("""
    float f(const double* p, int n) {
      float sum = 0.f;
      while (n-- > 0) sum += p[n];
      return sum;
    }
    """)
    (reduction,) = scanned.nodes(NodeKind.REDUCTION)
    assert (reduction.format, reduction.accumulator) == ("float64", "float32")


def test_a_fresh_variable_of_each_iteration_is_no_reduction(scan: Scan) -> None:
    scanned = scan("""
    float f(const float* p, int n) {
      float last = 0.f;
      for (int i = 0; i < n; i++) {
        float t = p[i];
        t += 1.f;
        last = t;
      }
      return last;
    }
    """)
    assert scanned.nodes(NodeKind.REDUCTION) == []


def test_an_addition_outside_of_a_loop_is_no_reduction(scan: Scan) -> None:
    scanned = scan("""
    float f(float x, float y) {
      x += y;
      x = x + y;
      return x;
    }
    """)
    assert scanned.nodes(NodeKind.REDUCTION) == []


@pytest.mark.parametrize("loop", ["while (n-- > 0) {B}", "do {B} while (n-- > 0);", "for (float x : a) {B}"])
def test_every_kind_of_loop_carries_values(scan: Scan, loop: str) -> None:
    text = loop.replace("B", " s += a[0]; ")
    scanned = scan(f"""
    float f(const float (&a)[4], int n) {{
      float s = 0.f;
      {text}
      return s;
    }}
    """)
    assert ("3 s", "3 +") in scanned.edges(scanned.instance("f"), EdgeKind.LOOP_CARRIED)


def test_a_value_of_an_inner_loop_is_carried_round_the_outer_one(scan: Scan) -> None:
    scanned = scan("""
    float f(const float* p, int n) {
      float s = 0.f;
      for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
          s += p[j];
      return s;
    }
    """)
    instance = scanned.instance("f")
    assert ("5 s", "5 +") in scanned.edges(instance, EdgeKind.LOOP_CARRIED)
    assert {source for source, target in scanned.edges(instance) if target == "6 return"} == {"2 s", "5 s"}


def test_parts_of_a_struct_are_variables_of_their_own(scan: Scan) -> None:
    scanned = scan("""
    struct Acc { float sum; float other; };
    float f(const float* p, int n, float x) {
      Acc a;
      a.other = x;
      for (int i = 0; i < n; i++) a.sum += p[i];
      return a.other;
    }
    """)
    instance = scanned.instance("f")
    (reduction,) = scanned.nodes_of(instance, NodeKind.REDUCTION)
    assert reduction.line == 5
    assert {source for source, target in scanned.edges(instance) if target == "6 return"} == {"4 other"}


def test_a_member_of_the_object_itself_is_carried_round_a_loop(scan: Scan) -> None:
    scanned = scan("""
    struct Acc {
      double sum;
      void add(const float* p, int n) {
        for (int i = 0; i < n; i++) sum += p[i];
      }
    };
    """)
    (reduction,) = scanned.nodes(NodeKind.REDUCTION)
    assert (reduction.line, reduction.accumulator) == (4, "float64")


def test_a_sum_in_memory_is_carried_round_a_loop(scan: Scan) -> None:
    scanned = scan("""
    __global__ void f(float* out, const float* p, int n) {
      for (int i = 0; i < n; i++) out[0] += p[i];
    }
    """)
    (reduction,) = scanned.nodes(NodeKind.REDUCTION)
    assert (reduction.line, reduction.accumulator) == (2, "float32")


def test_an_array_holds_what_was_stored_to_any_of_its_places(scan: Scan) -> None:
    scanned = scan("""
    float f(float x, double y) {
      float t[2] = {x, 0.f};
      t[1] = y;
      return t[0];
    }
    """)
    instance = scanned.instance("f")
    (returned,) = scanned.nodes_of(instance, NodeKind.RETURN)
    assert all(flows(instance, parameter, returned) for parameter in scanned.nodes_of(instance, NodeKind.PARAMETER))


def test_loads_and_stores_through_pointers(scan: Scan) -> None:
    scanned = scan("""
    __global__ void f(const c10::Half* in, float* out, int n) {
      float x = in[n];
      *out = x;
    }
    """)
    instance = scanned.instance("f")
    assert [(n.line, n.format) for n in scanned.nodes_of(instance, NodeKind.LOAD)] == [(2, "float16")]
    assert [(n.line, n.format) for n in scanned.nodes_of(instance, NodeKind.STORE)] == [(3, "float32")]
    assert {("1 in", "2 []"), ("2 []", "2 conversion_function"), ("2 x", "3 =")} <= scanned.edges(instance)


def test_a_limit_of_a_type_is_no_selection(scan: Scan) -> None:
    scanned = scan("""
    #include <algorithm>
    #include <limits>
    float f(float x) { return std::max(std::numeric_limits<float>::min(), x); }
    """)
    instance = scanned.instance("f")
    assert [node.operation for node in scanned.nodes_of(instance, NodeKind.SELECTION)] == ["max"]


def test_a_condition_decides_a_selection(scan: Scan) -> None:
    scanned = scan("""
    float f(float x, float y) {
      return x > y ? x : y;
    }
    """)
    instance = scanned.instance("f")
    (selection,) = scanned.nodes_of(instance, NodeKind.SELECTION)
    assert (selection.format, selection.category) == ("float32", "")
    assert scanned.edges(instance, EdgeKind.CONTROL) == {("2 >", "2 ?:")}
    assert {("1 x", "2 ?:"), ("1 y", "2 ?:")} <= scanned.edges(instance, EdgeKind.DEF_USE)


def test_parts_of_a_structured_binding_come_from_the_bound_value(scan: Scan) -> None:
    scanned = scan("""
    struct P { float a; float b; };
    float f(P p) {
      auto [a, b] = p;
      return a + b;
    }
    """)
    instance = scanned.instance("f")
    (parameter,) = scanned.nodes_of(instance, NodeKind.PARAMETER)
    (returned,) = scanned.nodes_of(instance, NodeKind.RETURN)
    assert flows(instance, parameter, returned)
