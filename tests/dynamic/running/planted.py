"""A small transformer whose parts can be computed right, or wrong in the ways that are found in released models."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

WIDTH = 32


class Norm(nn.Module):
    """Layer normalization; wrong with the variance as E[x^2] - E[x]^2."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        if not self.wrong:
            return functional.layer_norm(x, (WIDTH,), self.weight)
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        return (x - mean) / (variance + 1e-5).sqrt() * self.weight


class Gelu(nn.Module):
    """GELU by the tanh formula; wrong with each step in the format of x."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong

    def forward(self, x):
        if not self.wrong:
            return functional.gelu(x, approximate="tanh")
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


class Attention(nn.Module):
    """One head with rotated queries and keys; wrong by ``rotation``, ``sum`` or ``maximum``."""

    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.wrong = wrong
        self.inner = nn.Linear(WIDTH, 3 * WIDTH)
        self.outer = nn.Linear(WIDTH, WIDTH)

    def rotated(self, x):
        computed = torch.bfloat16 if self.wrong == "rotation" else torch.float32
        frequencies = 1e4 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        angles = torch.arange(x.shape[-2]).to(computed)[:, None] * frequencies.to(computed)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)

    def weights(self, scores):
        if self.wrong == "maximum":
            exponentials = scores.exp()
            return exponentials / exponentials.sum(-1, keepdim=True)
        if self.wrong == "sum":
            exponentials = (scores - scores.amax(-1, keepdim=True)).half().exp()
            total = exponentials[..., 0]
            for place in range(1, exponentials.shape[-1]):
                total = total + exponentials[..., place]
            return (exponentials / total[..., None]).to(scores.dtype)
        return functional.softmax(scores, -1)

    def forward(self, x):
        query, key, value = self.inner(x).chunk(3, -1)
        scores = self.rotated(query) @ self.rotated(key).transpose(-1, -2) / WIDTH**0.5
        return self.outer(self.weights(scores) @ value)


class Loss(nn.Module):
    """A mean over rows; wrong with the rows and their sum in float16."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong

    def forward(self, output, target):
        rows = (output.float() - target).pow(2).mean(-1)
        return rows.half().sum() / len(rows) if self.wrong else rows.mean()


class Block(nn.Module):
    """A transformer's block of the parts above."""

    def __init__(self, wrong: str = "") -> None:
        super().__init__()
        self.before = Norm(wrong == "norm")
        self.attention = Attention(wrong)
        self.between = Norm(wrong == "norm")
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), Gelu(wrong == "gelu"), nn.Linear(2 * WIDTH, WIDTH))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.before(x)))
        return x + self.feed(self.between(x))


def transformer(wrong: str = "", *, blocks: int = 2, offset: float = 0.0, scale: float = 1.0) -> nn.Module:
    """A stack of blocks; ``offset`` is added to what they normalize, ``scale`` multiplies queries and keys."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, WIDTH), *[Block(wrong) for _ in range(blocks)])
    with torch.no_grad():
        model[0].bias.add_(offset)
        for block in model[1:]:
            block.attention.inner.weight[: 2 * WIDTH] *= scale
            block.feed[0].weight *= 3
    return model
