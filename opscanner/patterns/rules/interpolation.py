"""Interpolation weights, coordinates and indices are computed in a wider format, or in floating point at all.

Upsampling, grid sampling, region pooling, cropping: source coordinates, their fractions (weights), and pixels times
weights; and index arithmetic that goes from an integer through floating point back to an integer.

Why it matters
    A coordinate needs as many digits as the image is wide: in bfloat16 positions above 256 are no longer all integers,
    in float16 above 2048, so that neighbours are mixed up, and the fraction that is left as weight has few or no
    digits. float32 has the same limit at 2**24.

How it decides
    An integer that is converted, used in arithmetic and converted back to an integer, not to be returned, is index
    arithmetic (high confidence where the function's name speaks of indices, pools or interpolation, else medium). A
    widened value or an integer in arithmetic in a function, class or file whose name says that it interpolates: high
    when the value becomes an index or is combined with a value named as weight or coordinate, medium otherwise.

What it cannot see
    Interpolation in texture units. Whether indices stay below the limit.

Source
    PyTorch ``ATen/native/cuda/UpSample.cuh`` (area_pixel_compute_source_index) and ``GridSampler.cuh``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.slices import Step
from opscanner.patterns.subjects import CastSubject

FUNCTIONS = frozenset(
    (
        "upsample", "interpolate", "interp", "interpolation", "sampler", "bilinear", "bicubic", "trilinear", "cubic",
        "resize", "roi", "crop", "coordinates", "coordinate", "coord", "unnormalize", "antialias", "resampler",
        "upsampling", "pixel",
    )
)  # fmt: skip
INDEXING = frozenset(
    ("pool", "pooling", "index", "idx", "start", "end", "bin", "bucket", "histogram", "offset", "size", "grid")
)
WEIGHTS = frozenset(
    (
        "lambda", "weight", "weights", "wts", "coeff", "coeffs", "coord", "coordinate", "coordinates", "scale",
        "ix", "iy", "iz",
        "real", "index", "lerp", "center", "scales", "rheight", "rwidth", "rdepth", "height", "width", "depth",
    )
)  # fmt: skip

#: Formats of indices and sizes; bool and the small integers are data.
_INDICES = frozenset(("int32", "int64", "uint32", "uint64"))
#: Quantization rounds data, not coordinates, to integers.
_QUANTIZING = frozenset(("quant", "quantize", "quantized", "quantizer", "quantization"))


def judge(cast: CastSubject) -> Verdict | None:
    """Coordinates, weights, indices."""
    if not (cast.widens or cast.from_integer) or not cast.computes:
        return None
    graph = cast.graph

    def index_of(step: Step) -> bool:
        facts = graph.cast[step.node]
        return facts is not None and facts.direction == "float_to_int" and step.operations <= 5

    indexed = cast.forward.first(graph, index_of)
    if indexed >= 0 and any(
        graph.kind[target] == "return" for target, _ in graph.successors[cast.forward.steps[indexed].node]
    ):
        indexed = -1  # a result that is an integer, not an index: linspace of integers
    named = sorted(cast.function_words & FUNCTIONS)
    words = sorted(cast.words & WEIGHTS)
    whole = cast.from_integer and cast.from_format in _INDICES and not cast.function_words & _QUANTIZING
    if indexed >= 0 and not named:
        # Elsewhere the way to the integer has to be in sight: behind calls it is anybody's.
        whole = whole and graph.instance[cast.forward.steps[indexed].node].id == cast.instance.id
    if whole and indexed >= 0 and not cast.forward.steps[indexed].unwound:
        sure = named or cast.function_words & INDEXING
        confidence, index = (Confidence.HIGH if sure else Confidence.MEDIUM), indexed
        why = "and an integer again behind arithmetic"
    elif named and (indexed >= 0 or words):
        confidence, index = Confidence.HIGH, cast.effect
        why = f"with {', '.join(words[:3])}" if words else "for an index"
    elif named:
        confidence, index, why = Confidence.MEDIUM, cast.effect, f"in a function named for {', '.join(named)}"
    else:
        return None
    return Verdict(
        confidence,
        cast.chain(index),
        f"{cast.from_format} becomes {cast.to_format} {why}: {cast.what(cast.effect)}",
    )


RULE = CastRule("interpolation", "interpolation weights, coordinates, index arithmetic", 95, judge)

EXAMPLES = (
    """
    __global__ void resize(const float* x, float* y, float scale) {
      float source = static_cast<float>(threadIdx.x)  // expect: interpolation
                     * scale;
      int left = static_cast<int>(source);
      y[threadIdx.x] = x[left];
    }
    """,
    """
    __global__ void upsample_linear(const c10::Half* x, c10::Half* y, float lambda) {
      float left = x[0];  // expect: interpolation
      float right = x[1];  // expect: interpolation
      y[0] = left * (1.0f - lambda) + right * lambda;
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void fade(const c10::Half* x, c10::Half* y, float amount) {
      y[0] = static_cast<float>(x[0]) * amount;
    }
    """,
)
