"""A library computes in a wider format than the data, or is given its scalars in one.

Calls of cuBLAS, cuDNN, cuSPARSE, CUB and their kin whose scalars (alpha, beta) or operands are widened for them; and
library functions that change the format inside: ``std::fmod(half, half)``, the slow paths of ``cosf``.

Why it matters
    Half of an operator's arithmetic can be in a library: a matrix product with float16 operands sums in float16 or in
    float32, as its compute type says, and the type of alpha and beta goes with it.

How it decides
    A cast of the form library_call happens inside a library function that the line calls (high confidence). A widened
    value that is an argument of a call that gives a number, whose name is a BLAS, DNN or CUB function's and whose body
    is not scanned (medium). A widened value with which nothing else is done in a host function that is named for such a
    library (low): calls that give a status, and arguments by address, are no nodes of the graph.

What it cannot see
    The compute type that is passed (``CUBLAS_COMPUTE_32F``), and which algorithm the library takes.

Source
    cuBLAS 12.4 documentation, 2.8.12 (cublasGemmEx) and 2.2.4; ``scripts/libdevice_casts.py`` for CUDA's functions.
"""

from __future__ import annotations

import re

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import body_was_seen
from opscanner.patterns.slices import Step
from opscanner.patterns.subjects import CastSubject
from opscanner.patterns.words import words_of_function

_LIBRARY = re.compile(
    r"^(?:cublas|cudnn|cusparse|cusolver|cufft|rocblas|miopen|hipblas)|^(?:b?gemm|gemv|bgemm|dot|axpy|scal)(?:_|$)|gemm"
    r"|^(?:Device(?:Scan|Reduce|Segmented\w+|Radix\w+)|Block(?:Scan|Reduce)|ThenBlas\w+)",
    re.IGNORECASE,
)

_FUNCTIONS = frozenset(
    ("gemm", "gemv", "bgemm", "blas", "cublas", "cudnn", "matmul", "addmm", "cusparse", "spmm", "sddmm")
)
#: Library functions that only put values together.
_CARRIERS = frozenset(("tuple", "make_tuple", "pair", "make_pair", "array", "optional", "_str", "str", "to_string"))


def judge(cast: CastSubject) -> Verdict | None:
    """Inside of a library, or for one."""
    if not (cast.widens or cast.narrows):
        return None
    graph = cast.graph
    if cast.cast.form == "library_call" and graph.operation[cast.node] not in _CARRIERS:
        return Verdict(
            Confidence.HIGH,
            cast.chain(),
            f"{cast.from_format} becomes {cast.to_format} inside the library function {graph.operation[cast.node]}",
        )
    if not cast.widens:
        return None

    def called(step: Step) -> bool:
        node = step.node
        return (
            graph.kind[node] == "call"
            and not step.operations
            and _LIBRARY.search(graph.operation[node]) is not None
            and not body_was_seen(graph, node)
        )

    index = cast.forward.first(graph, called)
    named = sorted(words_of_function(cast.function) & _FUNCTIONS)
    if index < 0 and named and not cast.device and not (cast.computes or cast.compares):
        return Verdict(
            Confidence.LOW,
            cast.chain(cast.end),
            f"{cast.from_format} is widened to {cast.to_format} in a host function named for {', '.join(named)}",
        )
    if index < 0:
        return None
    name = graph.operation[cast.forward.steps[index].node]
    return Verdict(
        Confidence.MEDIUM,
        cast.chain(index),
        f"{cast.from_format} is widened to {cast.to_format} for the call of {name}",
    )


RULE = CastRule("library-compute-type", "library call with a wider type", 150, judge)

EXAMPLES = (
    """
    int cublasSgemmEx(const void* a, const void* b, const float* alpha);
    void gemm(const void* a, const void* b, c10::Half alpha) {
      float wide = static_cast<float>(alpha);  // expect: library-compute-type
      cublasSgemmEx(a, b, &wide);
    }
    """,
)
COUNTEREXAMPLES = (
    """
    int resize(float scale);
    int prepare(c10::Half scale) { return resize(static_cast<float>(scale)); }
    """,
)
