"""Random numbers and probabilities are drawn, compared or scaled in a wider format than the data.

A generator's output that is converted to the storage format, a value that is multiplied by a random mask or compared
with a random number, and the arithmetic of sampling: dropout, bernoulli, multinomial, the distributions.

Why it matters
    A uniform number in float16 has 2**10 values in [0.5, 1) and in bfloat16 128: probabilities below 1/256 cannot be
    told apart, and rounding 1 - 2**-24 up gives a 1.0 that the interval excludes, so that log(1 - u) is infinite. Keep
    probabilities of 1 - p likewise: 1 - 0.999 in bfloat16 is 0.

How it decides
    High confidence when the value comes from, or is combined with, the result of a generator's call (``curand_...``,
    ``uniform``, ``normal``, ``philox``). Medium when the names of the value or of those it is combined with are those
    of probabilities. Low when the function's, its class's or its file's name alone says that it samples (Dropout,
    Distributions, bernoulli, multinomial); then the cast must enter arithmetic.

What it cannot see
    Random numbers that were stored by another kernel (a mask in memory) unless they are named so.

Source
    cuRAND 12.4 documentation, 2 and 4 (curand_uniform excludes 0.0 and includes 1.0); PyTorch
    ``ATen/core/TransformationHelper.h``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.subjects import CastSubject

GENERATORS = frozenset(("curand", "philox", "randn", "rand", "rng", "uniform", "random"))
PROBABILITIES = frozenset(("prob", "probs", "probability", "probabilities", "bernoulli", "dropout"))
#: Functions that make probabilities out of scores, and draw nothing.
_NORMALIZING = frozenset(("softmax", "logsoftmax", "xent", "normalized", "crossentropy"))
SAMPLING = frozenset(
    (
        "dropout", "bernoulli", "multinomial", "distribution", "distributions", "binomial", "dirichlet", "rrelu",
        "gumbel", "sampling", "philox", "btrs",
    )
)  # fmt: skip


def judge(cast: CastSubject) -> Verdict | None:
    """Drawn, or combined with what was drawn."""
    if not (cast.widens or cast.narrows) or (cast.widens and not (cast.computes or cast.compares)):
        return None
    graph = cast.graph
    drawn = cast.backward.first(
        graph,
        lambda step: (
            graph.kind[step.node] == "call"
            and step.operations <= 2
            and (graph.operation[step.node].startswith("curand") or graph.operation[step.node] in ("uniform", "normal"))
        ),
    )
    if drawn >= 0:
        call = cast.backward.steps[drawn].node
        message = f"a random number of {graph.operation[call]} becomes {cast.to_format} from {cast.from_format}"
        return Verdict(
            Confidence.HIGH, (*reversed(cast.backward.path(drawn)), *cast.forward.path(cast.end)[1:]), message
        )
    if cast.narrows:
        return None
    if "curand" in cast.partner_words:
        confidence, why = Confidence.HIGH, "is combined with a random number"
    elif not cast.computes or cast.function_words & _NORMALIZING:
        return None
    elif cast.words & (PROBABILITIES | GENERATORS):
        named = sorted(cast.words & (PROBABILITIES | GENERATORS))
        confidence, why = Confidence.MEDIUM, f"is, or is combined with, a value named {', '.join(named)}"
    elif cast.function_words & SAMPLING:
        named = sorted(cast.function_words & SAMPLING)
        confidence, why = Confidence.LOW, f"is used in arithmetic of a function named for {', '.join(named)}"
    else:
        return None
    return Verdict(confidence, cast.chain(cast.end), f"{cast.from_format} is widened to {cast.to_format} and {why}")


RULE = CastRule("random-numbers", "random numbers and probabilities", 50, judge)

EXAMPLES = (
    """
    struct State;
    __device__ float curand_uniform(State*);
    __global__ void dropout(State* state, const c10::Half* x, c10::Half* y, float p) {
      float keep = curand_uniform(state) < p;
      y[0] = static_cast<float>(x[0])  // expect: random-numbers
             * keep;
    }
    """,
    """
    struct State;
    __device__ float curand_normal(State*);
    __global__ void fill(State* state, c10::BFloat16* y) {
      y[0] = static_cast<c10::BFloat16>(curand_normal(state));  // expect: random-numbers
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void scale(const c10::Half* x, c10::Half* y, float factor) {
      y[0] = static_cast<float>(x[0]) * factor;
    }
    """,
)
