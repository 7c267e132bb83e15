"""Which additions are sums: expected kinds are read off C++ by eye, one statement a case."""

from __future__ import annotations

import pytest

from opscanner.ir import EdgeKind, NodeKind
from tests.frontend.snippets import Scan, Scanned

_HALF = """
    c10::Half __hadd(c10::Half a, c10::Half b);
    c10::Half __hmul(c10::Half a, c10::Half b);
    c10::Half __hfma(c10::Half a, c10::Half b, c10::Half c);
    c10::Half __shfl_down_sync(unsigned mask, c10::Half v, int offset);
    struct Pair { c10::Half sum; c10::Half* out; };
"""


def _kernel(scan: Scan, body: str) -> Scanned:
    return scan(f"""{_HALF}
    void f(const c10::Half* x, c10::Half* y, c10::Half* s, const int* bin, Pair pair, Pair* held, int n, int t) {{
      c10::Half v = x[0];
      {body}
      y[n] = v;
    }}
    """)


def _sums(scanned: Scanned) -> list[tuple[str, str]]:
    return [(node.operation, node.accumulator) for node in scanned.nodes(NodeKind.REDUCTION)]


def _surely(scanned: Scanned) -> bool:
    """The one sum has an edge to itself: some loop comes back to its place."""
    instance = scanned.instance("f")
    (sum_,) = [i for i, node in enumerate(instance.nodes) if node.kind is NodeKind.REDUCTION]
    return any(edge[:2] == (sum_, sum_) and edge.kind is EdgeKind.LOOP_CARRIED for edge in instance.edges)


@pytest.mark.parametrize(
    "statement",
    [
        "y[0] += x[i];",
        "y[0] = y[0] + x[i];",
        "*y = *y + x[i];",
        "*y = x[i] + *y;",
        "y[t] = y[t] + x[i] + x[i + 1];",
        "y[t] = __hadd(y[t], x[i]);",
        "y[t] = __hfma(x[i], x[i], y[t]);",
        "c10::Half sum = y[t] + x[i]; y[t] = sum;",
        "y[t] = static_cast<c10::Half>(static_cast<float>(y[t]) + static_cast<float>(x[i]));",
        "for (int j = 0; j < 4; ++j) y[j] += x[i * 4 + j];",
        "for (int j = 0; j < 4; ++j) { int k = j + 1; y[k] = y[k] + x[i * 4 + j]; }",
        "c10::Half* out = y + t; *out += x[i];",
        "held->sum += x[i];",
        "held->sum = held->sum + x[i];",
        "pair.out[0] += x[i];",
    ],
)
def test_a_sum_in_a_place_that_a_loop_comes_back_to_is_carried_round_it(scan: Scan, statement: str) -> None:
    scanned = _kernel(scan, f"for (int i = 0; i < n; ++i) {{ {statement} }}")
    ((operation, held),) = _sums(scanned)
    assert (operation, held) == ("fma" if "fma" in statement else "+", "float16")
    assert _surely(scanned)


@pytest.mark.parametrize(
    "statement", ["s[t] = s[t] + s[t + k];", "s[t] += s[t + k];", "s[t] = __hadd(s[t], s[t + k]);"]
)
def test_a_tree_over_an_array_is_a_sum(scan: Scan, statement: str) -> None:
    scanned = _kernel(scan, f"for (int k = n / 2; k > 0; k >>= 1) if (t < k) {statement}")
    assert _sums(scanned) == [("+", "float16")]
    assert _surely(scanned)


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = t; i < n; i += 32) y[i] += x[i];",
        "for (int i = t; i < n; i += 32) y[i] *= v;",
        "for (int i = t; i < n; i += 32) y[i * 4 + 1] = y[i * 4 + 1] + x[i];",
        "for (int i = 0; i < n; ++i) { int k = i * 4; y[k] += x[i]; }",
        "for (int i = 0; i < n; ++i) { c10::Half* out = y + i; *out += x[i]; }",
        "for (int i = 0; i < n; ++i) { c10::Half& out = y[i]; out += x[i]; }",
        "for (int i = 0; i < n; ++i, ++y) *y += x[i];",
        "while (n-- > 0) *y++ += *x++;",
        "while (t < n) { y[t] += x[t]; t += 32; }",
        "for (int r = 0; r < n; ++r) for (int j = 0; j < 8; ++j) y[r * 8 + j] += x[j];",
        "c10::Half a[4] = {v, v, v, v}; for (auto& e : a) e *= v; v = a[0];",
        "for (int i = 0; i < n; ++i) { c10::Half a[2]; a[0] = x[i]; a[0] += v; y[i] = a[0]; }",
        "for (int i = 0; i < n; ++i) { s[0] = x[i]; s[0] += v; y[i] = s[0]; }",
        "for (int i = 0; i < n; ++i) {"
        " for (int j = 0; j < 4; ++j) s[j] = x[4 * i + j]; for (int k = 0; k < 4; ++k) s[k] *= v; }",
    ],
)
def test_an_element_that_is_met_once_is_no_sum(scan: Scan, loop: str) -> None:
    assert _sums(_kernel(scan, loop)) == []


def test_a_place_that_a_branch_may_have_set_before_is_left_open(scan: Scan) -> None:
    scanned = _kernel(scan, "for (int i = 0; i < n; ++i) { if (bin[i]) y[0] = x[i]; y[0] += v; }")
    assert _sums(scanned) == [("+", "float16")]
    assert not _surely(scanned)


@pytest.mark.parametrize("place", ["y[bin[i]]", "y[i % 8]", "y[i / 2]", "y[i & 7]"])
def test_an_element_that_may_be_met_again_is_a_sum_of_which_that_is_left_open(scan: Scan, place: str) -> None:
    scanned = _kernel(scan, f"for (int i = 0; i < n; ++i) {place} += x[i];")
    assert _sums(scanned) == [("+", "float16")]
    assert not _surely(scanned)


@pytest.mark.parametrize(
    ("statement", "operation"),
    [
        ("v = __hfma(x[i], x[i], v);", "fma"),
        ("v = __hadd(v, x[i]);", "+"),
        ("v = v + x[i] + x[i + 1];", "+"),
        ("v = static_cast<c10::Half>(static_cast<float>(v) + static_cast<float>(x[i]));", "+"),
        ("pair.sum = pair.sum + x[i];", "+"),
        ("v += __shfl_down_sync(~0u, v, i);", "+"),
    ],
)
def test_further_ways_to_write_a_sum_in_a_variable(scan: Scan, statement: str, operation: str) -> None:
    assert _sums(_kernel(scan, f"for (int i = 0; i < n; ++i) {{ {statement} }}")) == [(operation, "float16")]


@pytest.mark.parametrize(
    "statement",
    ["v = __hfma(v, x[0], x[i]);", "v = __hadd(__hmul(v, x[0]), x[i]);", "y[0] = __hfma(y[0], x[0], x[i]);"],
)
def test_a_step_of_horners_scheme_is_no_sum(scan: Scan, statement: str) -> None:
    assert _sums(_kernel(scan, f"for (int i = 0; i < n; ++i) {statement}")) == []


def test_adding_another_threads_value_is_a_sum_outside_of_a_loop_too(scan: Scan) -> None:
    scanned = _kernel(scan, "v += __shfl_down_sync(~0u, v, 16); v = v + __shfl_down_sync(~0u, v, 8); v = v + x[1];")
    assert _sums(scanned) == [("+", "float16")] * 2


def test_two_elements_of_shared_memory_are_added_up_outside_of_a_loop_too(scan: Scan) -> None:
    scanned = scan("""
    __global__ void f(float* x) {
      __shared__ float s[64];
      float own[64];
      int t = threadIdx.x;
      s[t] = x[t];
      own[t] = x[t];
      if (t < 32) s[t] += s[t + 32];
      own[t] += own[t + 1];
      s[t] += x[t];
      x[t] = s[t] + own[t];
    }
    """)
    assert [node.line for node in scanned.nodes(NodeKind.REDUCTION)] == [7]


@pytest.mark.parametrize(
    "exchange",
    [
        "old = atomicCAS(p, assumed, bits(x + value(assumed)));",
        "float sum = value(assumed) + x; old = atomicCAS(p, assumed, bits(sum));",
        "float sum = value(assumed) + x; unsigned next = (old & 1) | bits(sum); old = atomicCAS(p, assumed, next);",
    ],
)
def test_a_loop_round_a_compare_and_swap_adds_atomically(scan: Scan, exchange: str) -> None:
    scanned = scan(f"""
    unsigned atomicCAS(unsigned* p, unsigned compare, unsigned value);
    unsigned bits(float x);
    float value(unsigned x);
    void f(unsigned* p, float x) {{
      unsigned old = *p, assumed;
      do {{
        assumed = old;
        {exchange}
      }} while (assumed != old);
    }}
    """)
    (sum_,) = scanned.nodes(NodeKind.ATOMIC)
    assert (sum_.line, sum_.operation, sum_.category, sum_.accumulator) == (8, "add", "atomic", "float32")


def test_a_loop_round_a_compare_and_swap_that_chooses_adds_nothing(scan: Scan) -> None:
    scanned = scan("""
    unsigned atomicCAS(unsigned* p, unsigned compare, unsigned value);
    unsigned bits(float x);
    float value(unsigned x);
    void f(unsigned* p, float x) {
      unsigned old = *p, assumed;
      do {
        assumed = old;
        old = atomicCAS(p, assumed, bits(fmaxf(x, value(assumed))));
      } while (assumed != old);
    }
    """)
    assert scanned.nodes(NodeKind.ATOMIC) == []


def test_a_block_reduction_of_cub_is_a_sum_in_its_own_format(scan: Scan) -> None:
    scanned = scan("""
    namespace cub {
    template <typename T, int N> struct BlockReduce {
      struct TempStorage {};
      __device__ BlockReduce(TempStorage&);
      __device__ T Sum(T x);
    };
    }
    __global__ void f(const c10::Half* x, c10::Half* y) {
      __shared__ cub::BlockReduce<c10::Half, 128>::TempStorage storage;
      y[0] = cub::BlockReduce<c10::Half, 128>(storage).Sum(x[threadIdx.x]);
    }
    """)
    assert _sums(scanned) == [("sum", "float16")]


@pytest.mark.parametrize(
    ("name", "arguments", "operation"),
    [("__hadd_rn", "h, h", "+"), ("__hmul_sat", "h, h", "*"), ("__hfma_relu", "h, h, h", "fma"), ("__hneg", "h", "-")],
)
def test_every_variant_of_an_intrinsic_is_arithmetic(scan: Scan, name: str, arguments: str, operation: str) -> None:
    types = ", ".join("c10::Half" for _ in arguments.split(", "))
    scanned = scan(f"""
    c10::Half {name}({types});
    c10::Half f(c10::Half h) {{ return {name}({arguments}); }}
    """)
    assert [node.operation for node in scanned.nodes(NodeKind.ARITHMETIC)] == [operation]
