"""What Eigen's classes and functions compute, by name: functors of expressions, reducers, packet functions.

Sources: Eigen 3.4 (the copy in TensorFlow 2.14.1's wheel): ``Core/functors/{BinaryFunctors,UnaryFunctors,TernaryFunctors}.h``,
``CXX11/src/Tensor/{TensorFunctors,TensorBase}.h``, ``Core/GenericPacketMath.h``, ``Core/VectorwiseOp.h``,
``plugins/CommonCwise*.h``; TensorFlow ``core/kernels/{cwise_ops,cwise_ops_gradients}.h`` for the functors that it puts
into Eigen's namespace.
"""  # noqa: E501

from __future__ import annotations

import re

#: Functors whose operation has a sign or is a choice: the operation as the rest of opscanner names it.
_NAMED: dict[str, str] = {
    "sum": "+",
    "difference": "-",
    "product": "*",
    "conj_product": "*",
    "quotient": "/",
    "opposite": "-",
    "inverse": "/",
    "square": "*",
    "cube": "*",
    "max": "max",
    "min": "min",
    "clip": "clip",
    "clamp": "clip",
    "absolute_difference": "-",
    "squared_difference": "*",
    "absolute": "abs",
    "abs": "abs",
    "abs2": "*",
    "sigmoid": "logistic",
    "fmod2": "fmod",
    "mod2": "fmod",
}
#: Functors that compute nothing: they only make, choose or copy values.
_MOVES = frozenset(
    ["constant", "identity", "conjugate", "real", "imag", "arg", "boolean_and", "boolean_or", "boolean_not",
     "boolean_xor", "isnan", "isinf", "isfinite", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_not", "sign",
     "random", "const", "left", "right", "select", "boolean_select"]
)  # fmt: skip
_FUNCTOR = re.compile(r"^(?:google::|safe_|safe)?(?:scalar_)?(?P<name>\w+?)_op(?:_google)?$")
#: Functors that hold another one and one of its operands.
BINDING_FUNCTORS = frozenset(["bind1st_op", "bind2nd_op", "scalar_left", "scalar_right"])
CAST_FUNCTORS = frozenset(["scalar_cast_op"])
COMPARISON_FUNCTORS = frozenset(["scalar_cmp_op", "less", "greater", "less_equal", "greater_equal", "equal_to"])

ARITHMETIC = frozenset("+-*/")
SELECTIONS = frozenset(["max", "min", "clip"])

#: Reducers of tensor expressions and of Core's partial reductions.
REDUCERS: dict[str, str] = {
    "SumReducer": "sum",
    "MeanReducer": "mean",
    "ProdReducer": "prod",
    "MaxReducer": "max",
    "MinReducer": "min",
    "AndReducer": "and",
    "OrReducer": "or",
    "ArgMaxTupleReducer": "argmax",
    "ArgMinTupleReducer": "argmin",
    "ArgMaxPairReducer": "argmax",
    "ArgMinPairReducer": "argmin",
    **{
        f"member_{name}": name
        for name in ("sum", "mean", "prod", "norm", "squaredNorm", "stableNorm", "maxCoeff", "minCoeff", "lpnorm")
    },
}
#: Reductions that choose one of the values and round nothing.
CHOOSING_REDUCTIONS = frozenset(["max", "min", "maxCoeff", "minCoeff", "argmax", "argmin", "and", "or"])

#: Expression classes whose first template argument is the functor.
FUNCTOR_EXPRESSIONS = frozenset(
    ["TensorCwiseBinaryOp", "TensorCwiseUnaryOp", "TensorCwiseTernaryOp", "CwiseBinaryOp", "CwiseUnaryOp",
     "CwiseTernaryOp", "TensorGeneratorOp", "TensorCustomUnaryOp", "TensorCustomBinaryOp"]
)  # fmt: skip
#: Expression classes that sum over products: (template argument that holds the format, operation).
PRODUCT_EXPRESSIONS: dict[str, tuple[int, str]] = {
    "TensorContractionOp": (1, "contract"),
    "TensorConvolutionOp": (1, "convolve"),
    "Product": (0, "matmul"),
}
#: Methods of Core that give a number at once.
SCALAR_REDUCTIONS: dict[str, str] = {
    "sum": "sum",
    "mean": "mean",
    "prod": "prod",
    "maxCoeff": "max",
    "minCoeff": "min",
    "dot": "dot",
    "norm": "norm",
    "squaredNorm": "norm",
    "stableNorm": "norm",
    "blueNorm": "norm",
    "lpNorm": "norm",
    "trace": "sum",
    "redux": "redux",
}

#: Functions on SIMD packets, as functors' ``packetOp`` calls them. Hardware decides whether ``pmadd`` rounds once.
PACKET_FUNCTIONS: dict[str, str] = {
    "padd": "+", "psub": "-", "pmul": "*", "pdiv": "/", "pnegate": "-", "pmadd": "fma", "pmsub": "fma",
    "pnmadd": "fma", "pnmsub": "fma", "pexp": "exp", "plog": "log", "plog1p": "log1p", "pexpm1": "expm1",
    "psqrt": "sqrt", "prsqrt": "rsqrt", "preciprocal": "/", "ptanh": "tanh", "psin": "sin", "pcos": "cos",
    "ptan": "tan", "perf": "erf", "ppow": "pow", "psigmoid": "logistic", "predux": "sum", "predux_mul": "prod",
    "pabs": "abs", "pmax": "max", "pmin": "min",
}  # fmt: skip


def functor_operation(name: str) -> str:
    """What a functor class of this name computes; empty when it computes nothing or the name does not tell.

    >>> functor_operation("scalar_sum_op"), functor_operation("scalar_tanh_op"), functor_operation("scalar_constant_op")
    ('+', 'tanh', '')
    """
    found = _FUNCTOR.match(name)
    word = found.group("name") if found else ""
    return "" if not word or word in _MOVES else _NAMED.get(word, word)
