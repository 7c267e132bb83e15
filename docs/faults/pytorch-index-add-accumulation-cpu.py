import sys

import torch

dtype = torch.float16
x = torch.tensor([[1.0]], dtype=dtype)
i = torch.tensor([0, 0], dtype=torch.int64)
u = torch.tensor([[10000.0], [-10000.0]], dtype=dtype)
result = torch.index_add(x, 0, i, u, alpha=-1)
if isinstance(result, (tuple, list)):
    result = result[0]
got = result.detach().cpu().flatten()[0 : 1]
value, bits = got.double().item(), got.view(torch.int16).item() & 0xFFFF

exact = 1.0  # the right result, before rounding
expected, expected_bits = 1.0, 0x3C00
error_ulp = abs(value - exact) / 0.0009765625  # in units in the last place of float16
print("torch", torch.__version__, "cpu")
print(f"expected {expected!r} (0x{expected_bits:04X})")
print(f"got      {value!r} (0x{bits:04X}), {error_ulp:.4g} ULP from the exact result")
right = value == expected or (value != value and expected != expected) or error_ulp <= 1
print("right" if right else "wrong")
sys.exit(0 if right else 1)
