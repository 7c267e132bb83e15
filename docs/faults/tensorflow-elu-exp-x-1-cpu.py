import os
import sys

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # the kernels of tensorflow/core/kernels

import numpy as np
import tensorflow as tf

dtype = tf.float16
x = tf.constant([[-0.000244140625]], dtype)
result = tf.raw_ops.Elu(features=x)
if isinstance(result, (tuple, list)):
    result = result[0]
got = result.numpy().ravel()[0 : 1]
value, bits = got.astype(np.float64).item(), got.view(np.uint16).item()

exact = -0.00024411082510278348  # the right result, before rounding
expected, expected_bits = -0.000244140625, 0x8C00
error_ulp = abs(value - exact) / 1.1920928955078125e-07  # in units in the last place of float16
print("tensorflow", tf.__version__, "cpu")
print(f"expected {expected!r} (0x{expected_bits:04X})")
print(f"got      {value!r} (0x{bits:04X}), {error_ulp:.4g} ULP from the exact result")
right = value == expected or (value != value and expected != expected) or error_ulp <= 1
print("right" if right else "wrong")
sys.exit(0 if right else 1)
