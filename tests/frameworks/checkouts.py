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
