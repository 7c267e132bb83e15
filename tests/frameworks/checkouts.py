"""A checkout of PyTorch in miniature: one structured operator, its gradient, a composite one, an unary macro."""

from __future__ import annotations

from pathlib import Path

NATIVE_FUNCTIONS = """\
- func: act.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU, CUDA: act_out
    MPS: act_out_mps

- func: act(Tensor self) -> Tensor
  structured_delegate: act.out

- func: act_(Tensor(a!) self) -> Tensor(a!)
  structured_delegate: act.out

- func: act_backward(Tensor grad, Tensor self) -> Tensor
  dispatch:
    CUDA: act_backward_cuda

- func: my_layer(Tensor self) -> Tensor

- func: round_it.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU, CUDA: round_it_out
"""
DERIVATIVES = """\
- name: act(Tensor self) -> Tensor
  self: act_backward(grad, self)
"""
ACTIVATION_CPP = """\
namespace at::native {
DEFINE_DISPATCH(act_stub);
TORCH_IMPL_FUNC(act_out)(const Tensor& self, const Tensor& out) {
  act_stub(device_type(), *this);
}
Tensor my_layer(const Tensor& self) {
  return at::act(self);
}
#define CREATE_UNARY_TORCH_IMPL_FUNC(func_out, func_stub) \\
  TORCH_IMPL_FUNC(func_out)(const Tensor& self, const Tensor& out) { func_stub(device_type(), *this); }
CREATE_UNARY_TORCH_IMPL_FUNC(round_it_out, round_it_stub)
}
"""
KERNEL_CU = """\
namespace at::native {
namespace {
void act_kernel(TensorIteratorBase& iter) {
  gpu_kernel(iter, [] GPU_LAMBDA(half a) -> half { return static_cast<float>(a); });
}
void round_it_kernel(TensorIteratorBase& iter) { gpu_kernel(iter, Round()); }
}
Tensor act_backward_cuda(const Tensor& grad, const Tensor& self) {
  launch_act_backward(grad, self);
  return grad;
}
REGISTER_DISPATCH(act_stub, &act_kernel)
REGISTER_DISPATCH(round_it_stub, &round_it_kernel);
}
"""
LAUNCH_CU = """\
namespace at::native {
void launch_act_backward(const Tensor& grad, const Tensor& self) { act_backward_kernel<<<1, 1>>>(grad); }
}
"""
CPU_CPP = """\
namespace at::native {
static void act_kernel(TensorIteratorBase& iter) { cpu_kernel(iter, Act()); }
REGISTER_DISPATCH(act_stub, &act_kernel)
}
"""
NATIVE = "aten/src/ATen/native"


def write_pytorch(root: Path) -> Path:
    """Writes the checkout below ``root``."""
    for name, text in {
        f"{NATIVE}/native_functions.yaml": NATIVE_FUNCTIONS,
        "tools/autograd/derivatives.yaml": DERIVATIVES,
        "version.txt": "2.6.0\n",
        f"{NATIVE}/Activation.cpp": ACTIVATION_CPP,
        f"{NATIVE}/cuda/Act.cu": KERNEL_CU,
        f"{NATIVE}/cuda/Launch.cu": LAUNCH_CU,
        f"{NATIVE}/cpu/Act.cpp": CPU_CPP,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


KERNELS = "tensorflow/core/kernels"
TENSORFLOW = {
    "tensorflow/core/ops/nn_ops.cc": """\
namespace tensorflow {
REGISTER_OP("Act")
    .Input("features: T");
REGISTER_OP("ActGrad").Input("gradients: T");
REGISTER_OP("Tanh").Input("x: T");
REGISTER_OP("Rsqrt").Input("x: T");
}
""",
    "tensorflow/core/framework/register_types.h": """\
#if !defined(IS_MOBILE_PLATFORM)
#define TF_CALL_half(m) m(Eigen::half)
#define TF_CALL_float(m) m(float)
#else
#define TF_CALL_half(m)
#endif
#define TF_CALL_FLOAT_TYPES(m) TF_CALL_half(m) TF_CALL_float(m)
""",
    f"{KERNELS}/act_op_functor.h": """\
namespace tensorflow {
namespace functor {
template <typename Device, typename T>
struct Act {
  void operator()(const Device& d, typename TTypes<T>::ConstTensor features) {
    activations.device(d) = features * static_cast<T>(2);
  }
};
template <typename Device, typename T>
struct ActGrad {
  void operator()(const Device& d, typename TTypes<T>::ConstTensor features) {}
};
}
}
""",
    f"{KERNELS}/act_op.cc": """\
#include "tensorflow/core/framework/register_types.h"
#include "tensorflow/core/kernels/act_op_functor.h"
namespace tensorflow {
template <typename Device, typename T>
class ActOp : public UnaryElementWiseOp<T, ActOp<Device, T>> {
 public:
  void Operate(OpKernelContext* context, const Tensor& input, Tensor* output) {
    functor::Act<Device, T> functor;
    functor(context->eigen_device<Device>(), input.flat<T>());
  }
};
template <typename Device, typename T>
class ActGradOp : public OpKernel {
  void Compute(OpKernelContext* context) override;
};
template <typename Device, typename T>
void ActGradOp<Device, T>::Compute(OpKernelContext* context) {
  functor::ActGrad<Device, T> functor;
}
#define REGISTER_ACT(type)                                   \\
  REGISTER_KERNEL_BUILDER(                                   \\
      Name("Act").Device(DEVICE_GPU).TypeConstraint<type>("T"), \\
      ActOp<GPUDevice, type>);                               \\
  REGISTER_KERNEL_BUILDER(                                   \\
      Name("ActGrad").Device(DEVICE_GPU).TypeConstraint<type>("T"), \\
      ActGradOp<GPUDevice, type>)
TF_CALL_FLOAT_TYPES(REGISTER_ACT);
#undef REGISTER_ACT
REGISTER_KERNEL_BUILDER(
    Name("Act").Device(DEVICE_CPU).TypeConstraint<bfloat16>("T"), ActOp<CPUDevice, bfloat16>);
}
""",
    f"{KERNELS}/cwise.h": """\
namespace tensorflow {
#if defined(SLIM)
#define REGISTER2(OP, D, N, F, T0, T1) REGISTER(OP, D, N, F, T0)
#else
#define REGISTER2(OP, D, N, F, T0, T1) REGISTER(OP, D, N, F, T0) REGISTER(OP, D, N, F, T1)
#endif
#define REGISTER(OP, D, N, F, T) \\
  REGISTER_KERNEL_BUILDER(Name(N).Device(DEVICE_##D).TypeConstraint<T>("T"), OP<D##Device, F<T>>);
template <typename Device, typename Functor>
class UnaryOp : public OpKernel {
  void Compute(OpKernelContext* ctx) override { functor::UnaryFunctor<Device, Functor>()(ctx); }
};
namespace functor {
template <typename Device, typename Functor>
struct UnaryFunctor {
  void operator()(OpKernelContext* ctx) { out.device(d) = in.unaryExpr(typename Functor::func()); }
};
}
}
""",
    f"{KERNELS}/cwise.cc": """\
#include "tensorflow/core/kernels/cwise.h"
namespace tensorflow {
REGISTER2(UnaryOp, GPU, "Tanh", functor::tanh, float, Eigen::half);
REGISTER2(UnaryOp, GPU, "Rsqrt", functor::rsqrt, float, Eigen::half);
}
""",
    f"{KERNELS}/act_op_gpu.cu.cc": """\
template struct functor::Act<GPUDevice, Eigen::half>;
""",
    "tensorflow/python/ops/nn_grad.py": """\
@ops.RegisterGradient("Act")
def _ActGrad(op, grad):
  return gen_nn_ops.act_grad(grad, op.outputs[0])
""",
}


def write_tensorflow(root: Path) -> Path:
    """Writes a checkout of TensorFlow in miniature: an activation, its gradient, two operators of one class."""
    for name, text in TENSORFLOW.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
