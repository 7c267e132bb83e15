"""What TensorFlow says where it has no such kernel; the examples are of 2.21.0 on a CPU, the longest shortened."""

from __future__ import annotations

from opscanner.frameworks.refusals import Refusal

REFUSALS = (
    Refusal(
        # Before 2.15: "Could not find valid device for node."
        r"Could not find (valid )?device for node",
        "kernel",
        "NotFoundError: Could not find device for node: {{node Erfinv}} = Erfinv[T=DT_HALF]\n"
        "All kernels registered for op Erfinv:\n  device='CPU'; T in [DT_DOUBLE]\n  device='CPU'; T in [DT_FLOAT]\n",
    ),
    Refusal(
        r"No OpKernel was registered to support Op",
        "kernel",
        "InvalidArgumentError: No OpKernel was registered to support Op 'ResourceApplyAdaMax' used by "
        "{{node ResourceApplyAdaMax}} with these attrs: [T=DT_BFLOAT16, use_locking=false]",
    ),
    Refusal(
        r"OpKernel '\w+' has constraint on attr '\w+' not in NodeDef",
        "kernel",
        "InvalidArgumentError: OpKernel 'TopK' has constraint on attr 'index_type' not in NodeDef '[T=DT_HALF, k=5, "
        "sorted=true]'",
    ),
    Refusal(
        r"Value for attr '\w+' of \w+ is not in the list of allowed values",
        "format",
        "InvalidArgumentError: Value for attr 'T' of bfloat16 is not in the list of allowed values: float, double\n"
        "\t; NodeDef: {{node Complex}}; Op<name=Complex; signature=real:T, imag:T -> out:Tout>",
    ),
    Refusal(
        r"input #\d+\(zero-based\) was expected to be an? \w+ tensor but is an? \w+ tensor",
        "format",
        "InvalidArgumentError: cannot compute ResizeBilinearGrad as input #0(zero-based) was expected to be a float "
        "tensor but is a half tensor [Op:ResizeBilinearGrad] name: ",
    ),
    Refusal(
        r"Tensor conversion requested dtype \w+ for Tensor with dtype",
        "format",
        "ValueError: Tensor conversion requested dtype float32 for Tensor with dtype bfloat16: <tf.Tensor: "
        "shape=(3,), dtype=bfloat16, numpy=array([0.621094, 0.789062, 0.675781], dtype=bfloat16)>",
    ),
    Refusal(
        r"Unsupported data type: \w+",
        "kernel",
        "InvalidArgumentError: {{function_node __wrapped__InplaceAdd_device_/job:localhost/replica:0/task:0/"
        "device:CPU:0}} Unsupported data type: float8_e5m2 [Op:InplaceAdd] name: ",
    ),
    Refusal(
        r"Error while casting from dtype \w+ to \w+",
        "format",
        "TypeError: Error while casting from dtype int64 to float8_e5m2. {{function_node __wrapped__Cast_device_/job:"
        "localhost/replica:0/task:0/device:CPU:0}} Cast int64 to float8_e5m2 is not supported",
    ),
    Refusal(
        r"does not support matrices of type",
        "format",
        "ValueError: tf.linalg.expm does not support matrices of type <dtype: 'bfloat16'>",
    ),
    Refusal(
        r"^UnimplementedError: ",
        "kernel",
        "UnimplementedError: The Conv2D op currently only supports the NHWC tensor format on the CPU. The op was given "
        "the format: NCHW [Op:Conv2D] name: ",
    ),
    Refusal(
        r"Default \w+ only supports NHWC on device type",
        "layout",
        "InvalidArgumentError: Default MaxPoolingOp only supports NHWC on device type CPU [Op:MaxPool] name: ",
    ),
    Refusal(
        r"gradient registry has no entry for",
        "gradient",
        "LookupError: gradient registry has no entry for: IgammaGradA",
    ),
    Refusal(
        r"Attempt to convert a value \(None\)",
        "gradient",
        "ValueError: Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.",
    ),
    Refusal(
        r"AttributeError: module 'tensorflow[\w.]*' has no attribute",
        "symbol",
        "AttributeError: module 'tensorflow._api.v2.raw_ops' has no attribute 'Nosuch'",
    ),
    Refusal(
        r"TypeError: .*got an unexpected keyword argument",
        "symbol",
        "TypeError: relu() got an unexpected keyword argument 'nosuch'",
    ),
    Refusal(
        r"^LayoutError: ",
        "layout",
        "LayoutError: layout strided is not offered here\n  try: one of contiguous, zero_dim",
    ),
)

#: What TensorFlow says where memory did not suffice, on CPU and GPU.
OUT_OF_MEMORY = r"^ResourceExhaustedError|^MemoryError|bad_alloc|OOM when allocating"
