"""A result is narrowed and widened again with no store between: its extra digits are thrown away on the way.

Why it matters
    The value was there in the wide format, and the computation goes on in the wide format; the rounding in between
    (2**-11 for float16, 2**-8 for bfloat16, and its overflow) buys nothing. It happens where functions take and give
    ``scalar_t``, and where authors round on purpose, to agree with an unfused computation.

How it decides
    A narrowing cast whose value goes, through steps that only hand it on and through no store to memory, into a cast
    that widens it: ``float(half(x))``. A helper that does nothing but convert (``c10::convert``) does not count as that
    cast unless it does both. What was widened before with nothing computed since is no round trip, it has no digits to
    lose (see unused-widening); of integers see rounded-integer. High confidence; medium when the cast stands in a
    helper that several functions call, which is reported of computed values only.

What it cannot see
    The author's purpose: emulating the rounding of the unfused operators is done on purpose in some fused kernels.

Source
    Goldberg, What every computer scientist should know about floating-point arithmetic, 1991, on double rounding.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.subjects import CastSubject, has_nothing_to_lose, widened_again


def judge(cast: CastSubject) -> Verdict | None:
    """Narrowed, then widened."""
    if not cast.narrows:
        return None
    # What a library does to its own argument and result is one operation, whichever way it goes.
    plain = cast.computed_before < 0
    if has_nothing_to_lose(cast) or (plain and cast.cast.form == "library_call"):
        return None
    path, unwound = widened_again(cast)
    # A value that only passes through a helper is narrowed for one caller and widened for another.
    if not path or (plain and unwound):
        return None
    graph = cast.graph
    again = graph.cast[path[-1]]
    assert again is not None
    return Verdict(
        Confidence.MEDIUM if unwound else Confidence.HIGH,
        _chain(cast, path),
        f"{cast.from_format} is narrowed to {cast.to_format} and widened again to {again.to_format} at line "
        f"{graph.line[path[-1]]}",
    )


def _chain(cast: CastSubject, path: tuple[int, ...]) -> tuple[int, ...]:
    if cast.computed_before < 0:
        return (*cast.chain()[:-1], *path)
    return (*reversed(cast.backward.path(cast.computed_before)), *path[1:])


RULE = CastRule("round-trip", "narrowed and widened again", 30, judge, helpers=True)

EXAMPLES = (
    """
    __device__ c10::Half half_of(float x) {
      return x * 0.5f;  // expect: round-trip
    }
    __global__ void kernel(const float* x, float* y) {
      float value = half_of(x[0]);
      y[0] = value + 1.0f;
    }
    """,
    """
    __global__ void quantize(const float* x, float* y) {
      y[0] = static_cast<float>(static_cast<c10::BFloat16>(x[0]));  // expect: round-trip
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __device__ c10::Half twice(c10::Half x) { return x + x; }
    __global__ void kernel(const c10::Half* x, float* y) {
      float value = x[0];
      y[0] = twice(static_cast<c10::Half>(value));
    }
    """,
    """
    __global__ void kernel(const float* x, c10::Half* y) {
      y[0] = x[0] * 0.5f;
    }
    """,
)
