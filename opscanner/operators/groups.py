"""Module groups of operators: the study's categories, told by the operators' names in both frameworks.

A table of rows, the first that matches wins. A name is compared in one spelling: ``FusedBatchNormGradV3`` and
``_fused_batch_norm_backward`` both as words joined by underscores, without ``_`` in front.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

OTHER = "other"


class Row(NamedTuple):
    """A group, what names match, and names that do."""

    group: str
    pattern: str
    examples: tuple[str, ...]


#: Order matters: log_softmax_backward is an activation's before ``log`` makes it math.
ROWS: tuple[Row, ...] = (
    Row(
        "optimizer",
        r"^(?:sparse_)?apply_|^resource_(?:sparse_)?apply_|^fused_(?:adam|sgd|adagrad)|^amp_",
        ("_fused_adam", "_fused_sgd", "ApplyAdam", "ResourceApplyMomentum", "SparseApplyFtrl", "_amp_update_scale"),
    ),
    Row(
        "transformer",
        r"attention|transformer|scaled_dot_product|_sdp_|rotary|kv_cache",
        ("_scaled_dot_product_flash_attention", "_transformer_encoder_layer_fwd", "_native_multi_head_attention"),
    ),
    Row(
        "rnn",
        r"(?:^|_)(?:rnn|lstm|gru)(?:_|$|cell)|block_lstm|ctc_(?:beam|greedy)|cudnn_rnn|pad_packed|pack_padded",
        ("lstm", "gru_cell", "_thnn_fused_lstm_cell", "_cudnn_rnn", "BlockLSTM", "GRUBlockCell", "CudnnRNN"),
    ),
    Row(
        "loss",
        r"loss|cross_entropy|kl_div|ctc|nll|margin_criterion|cosine_embedding|xent",
        ("nll_loss_forward", "binary_cross_entropy", "kl_div", "_ctc_loss", "mse_loss",
         "SparseSoftmaxCrossEntropyWithLogits", "L2Loss", "CTCLoss"),
    ),
    Row(
        "normalization",
        r"batch_norm|layer_norm|group_norm|instance_norm|rms_norm|local_response_norm|\blrn\b|^lrn|weight_norm|"
        r"renorm$|batch_?normalization|cudnn_batch",
        ("native_layer_norm", "FusedBatchNormGradV3", "LRN", "_weight_norm_interface", "native_group_norm", "renorm"),
    ),
    Row(
        "activation",
        r"softmax|softplus|softsign|softshrink|relu|selu|gelu|(?:^|_)c?elu(?:_|$)|prelu|(?:^|_)glu|silu|swish|"
        r"mish(?:_|$)|hard(?:tanh|sigmoid|swish|shrink)|^(?:log_)?sigmoid|^tanh|threshold",
        ("elu", "elu_backward", "gelu", "_log_softmax", "LeakyRelu", "SeluGrad", "Softplus", "hardtanh", "sigmoid",
         "TanhGrad", "threshold_backward", "Relu6Grad", "prelu", "glu", "log_sigmoid_forward"),
    ),
    Row(
        "image_processing",
        r"upsample|resize_(?:bilinear|bicubic|nearest|area)|scale_and_translate|grid_sampler|affine_grid|"
        r"adjust_(?:contrast|hue|saturation)|(?:rgb|hsv)_to|crop_and_resize|color|image|jpeg|png|bmp|gif|"
        r"non_max_suppression|pixel_(?:un)?shuffle|channel_shuffle|roi_|extract_glimpse|draw_bounding|bounding_box|"
        r"im2col|col2im|generate_box",
        ("upsample_bilinear2d", "ResizeBilinearGrad", "grid_sampler_2d_backward", "AdjustContrastv2", "RGBToHSV",
         "CropAndResize", "pixel_shuffle", "NonMaxSuppressionV5", "ImageProjectiveTransformV3"),
    ),
    Row(
        "cnn",
        r"conv(?!ert)|pool|dilation2_?d|depth_to_space|space_to_|batch_to_space|(?:reflection|replication)_pad|"
        r"mirror_pad|extract_(?:image|volume)_patches",
        ("convolution_backward", "_conv_depthwise2d", "Conv2DBackpropFilter", "MaxPoolGrad", "adaptive_avg_pool2d",
         "reflection_pad1d", "MirrorPad", "DepthwiseConv2dNative", "Dilation2D"),
    ),
    Row(
        "distribution",
        r"random|bernoulli|multinomial|poisson|(?:^|_)(?:standard|random|stateless\w*|sample)_gamma|dirichlet|cauchy|"
        r"geometric|exponential|log_normal|^normal|truncated_normal|uniform|rand|dropout|stateless|rngs?|^sample_",
        ("bernoulli", "RandomUniform", "StatelessRandomNormalV2", "native_dropout", "_standard_gamma", "multinomial",
         "ParameterizedTruncatedNormal", "poisson", "cauchy_", "randperm"),
    ),
    Row(
        "math",
        r"^(?:foreach_|native_)?(?:special_)?(?:abs|a?(?:sin|cos|tan)h?|arc\w+|atan2|exp|exp2|expm1|log|log2|log10|"
        r"log1p|x?log1?py|pow|sqrt|rsqrt|square|sign|sgn|neg|reciprocal|inv|floor\w*|ceil|round|rint|trunc\w*|frac|"
        r"add\w*|sub\w*|mul\w*|(?:real|un)?_?div\w*|mod|fmod|remainder|max\w*|min\w*|fmax|fmin|maximum|minimum|"
        r"clamp\w*|clip\w*|erf\w*|ndtri?|lgamma|digamma|polygamma|igammac?|igamma\w*|zeta|beta\w*|bessel\w*|"
        r"\w*_polynomial_\w+|i[01]e?|k[01]e?|airy_ai|logaddexp2?|logit|logsumexp|logcumsumexp|hypot|gcd|lcm|"
        r"nan_to_num|lerp|sum|prod|mean|var\w*|std\w*|norm|cumsum|cumprod|cum\w+|any|all|amax|amin|aminmax|arg\w+|"
        r"median|nanmedian|mode|kthvalue|squared_difference|dot|vdot|mm|bmm|mv|matmul\w*|batch_mat_mul\w*|mat_mul\w*|"
        r"sparse_mat_mul|einsum|addm[mv]\w*|addbmm|baddbmm|addcdiv|addcmul|addr|cross|cdist|pdist|trace|linalg\w*|"
        r"cholesky\w*|qr|svd\w*|eig\w*|lu\w*|self_adjoint\w*|matrix_\w+|triangular_solve|inverse|det|slogdet|logdet|"
        r"fft\w*|i?r?fft\w*|stft|istft|complex_abs|conj|angle|approximate_equal|equal|not_equal|greater\w*|less\w*|eq|"
        r"ne|lt|le|gt|ge|isnan|isinf|isfinite|is_nan|is_inf|is_finite|bitwise\w*|logical\w*|where|segment_\w+|"
        r"unsorted_segment\w+|bincount|histc|histogram\w*|cumulative\w*|accumulate\w*|bias_add\w*|ldexp|frexp|"
        r"copysign|signbit|heaviside|nextafter|rsub|next_after|sigmoid|softmax|xdivy|invert|absolute|x?logy|sinc|"
        r"gammaln|gammainc\w*|psi|entr|expit|\w*bessel\w*|cdist\w*|pdist\w*|trapez\w*|float_power|deg2rad|rad2deg|"
        r"outer|inner|ger|tensordot|kron|\w+_norm|cosine_similarity|pairwise_distance|true_divide|multigammaln|"
        r"isclose|isreal|isneginf|isposinf|positive|negative|nanmean|nanquantile|quantile|chain_matmul|cov|corrcoef|"
        r"sparse_mm\w*|sparse_addmm|sparse_sum\w*|euclidean_dist|mvlgamma|polygamma|roll|scan|polar|real|imag|"
        r"weight_int4pack_mm|int_mm|scaled_mm|grouped_mm|addmv|addbmm|count_nonzero|nansum|norm\w*|dist|renorm|hspmm|"
        r"smm|sspaddmm)(?:_grad|_backward|_n|_v2|_v3|_v4|_out|_no_nan|\d|$)",
        ("abs", "Abs", "special_erfcx", "RsqrtGrad", "_foreach_add", "Cumsum", "logcumsumexp", "BiasAddGrad",
         "DivNoNan", "linalg_vector_norm", "MatMul", "BatchMatMulV2", "igammac", "special_hermite_polynomial_h",
         "SquaredDifference", "UnsortedSegmentSum", "ArgMax", "var_mean", "_fft_c2c", "AddV2", "atan2",
         "special_bessel_j0"),
    ),
)  # fmt: skip
_COMPILED = tuple((row.group, re.compile(row.pattern)) for row in ROWS)


def spelling(name: str) -> str:
    """A name as the table compares it.

    >>> spelling("FusedBatchNormGradV3"), spelling("_log_softmax"), spelling("RGBToHSV"), spelling("quantized::conv2d")
    ('fused_batch_norm_grad_v3', 'log_softmax', 'rgb_to_hsv', 'conv2d')
    """
    name = name.rpartition("::")[2]
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return name.lower().strip("_")


@cache
def module_group(name: str) -> str:
    """The group that an operator's name puts it in; ``other`` when none does.

    >>> module_group("elu_backward"), module_group("FusedBatchNormV3"), module_group("copy")
    ('activation', 'normalization', 'other')
    """
    spelled = spelling(name)
    return next((group for group, pattern in _COMPILED if pattern.search(spelled)), OTHER)
