import sys

import torch

dtype = torch.bfloat16
x = torch.tensor([[-2.71875], [0.9921875], [13.625]], dtype=dtype)
u = torch.tensor([[-18.25], [-18.0], [-2.109375], [-7.84375], [-7.8125], [4.40625], [-6.3125], [8.5], [21.0], [-1.28125], [11.5], [10.75], [10.9375]], dtype=dtype)
i = torch.tensor([0, 1, 1, 0, 0, 0, 2, 1, 2, 1, 0, 0, 0], dtype=torch.int64)
result = torch.index_add(x, 0, i, u, alpha=0.5)
if isinstance(result, (tuple, list)):
    result = result[0]
got = result.detach().cpu().flatten()[0 : 1]
value, bits = got.double().item(), got.view(torch.int16).item() & 0xFFFF

exact = -0.875  # the right result, before rounding
expected, expected_bits = -0.875, 0xBF60
error_ulp = abs(value - exact) / 0.00390625  # in units in the last place of bfloat16
print("torch", torch.__version__, "cpu")
print(f"expected {expected!r} (0x{expected_bits:04X})")
print(f"got      {value!r} (0x{bits:04X}), {error_ulp:.4g} ULP from the exact result")
right = value == expected or (value != value and expected != expected) or error_ulp <= 1
print("right" if right else "wrong")
sys.exit(0 if right else 1)
