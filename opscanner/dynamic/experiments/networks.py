"""The networks of the published study's kinds, small: plain torch modules, as a user would write them."""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own name for it
from torch import Tensor, nn


class ConvNet(nn.Module):  # type: ignore[misc]  # torch is not read
    """Three of convolution, batch norm and SELU, then two linear layers with a softplus between."""

    def __init__(self, width: int = 24, classes: int = 10, channels: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((channels, width), (width, 2 * width), (2 * width, 2 * width)):
            layers += [nn.Conv2d(before, after, 3, padding=1, stride=2), nn.BatchNorm2d(after), nn.SELU()]
        self.features = nn.Sequential(*layers)
        self.hidden = nn.Linear(2 * width * 4, 4 * width)
        self.classes = nn.Linear(4 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = F.adaptive_avg_pool2d(self.features(images), 2).flatten(1)
        return cast(Tensor, self.classes(F.softplus(self.hidden(features))))


class _Block(nn.Module):  # type: ignore[misc]  # torch is not read
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.shortcut = (
            nn.Identity()
            if before == after and stride == 1
            else nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, inputs: Tensor) -> Tensor:
        inner = F.relu(self.first_norm(self.first(inputs)))
        return F.relu(self.second_norm(self.second(inner)) + self.shortcut(inputs))


class ResNet(nn.Module):  # type: ignore[misc]  # torch is not read
    """Four residual blocks (He and others 2016, the basic kind)."""

    def __init__(self, width: int = 16, classes: int = 10, channels: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        sizes = ((width, width, 2), (width, width, 1), (width, 2 * width, 2), (2 * width, 2 * width, 1))
        self.blocks = nn.Sequential(*(_Block(*size) for size in sizes))
        self.classes = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.classes(self.blocks(self.stem(images)).mean(dim=(2, 3))))


class Perceptron(nn.Module):  # type: ignore[misc]  # torch is not read
    """Two hidden layers with GELU between."""

    def __init__(self, pixels: int = 784, width: int = 128, classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(pixels, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, classes),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.layers(images))


class DigitNet(nn.Module):  # type: ignore[misc]  # torch is not read
    """The convolutional network of many MNIST tutorials: two convolutions, max pooling, two linear layers."""

    def __init__(self, width: int = 12, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 5)
        self.second = nn.Conv2d(width, 2 * width, 5)
        self.hidden = nn.Linear(2 * width * 16, 6 * width)
        self.classes = nn.Linear(6 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        inner = F.max_pool2d(F.relu(self.first(images)), 2)
        inner = F.max_pool2d(F.relu(self.second(inner)), 2)
        return F.log_softmax(self.classes(F.relu(self.hidden(inner.flatten(1)))), dim=1)


class VAE(nn.Module):  # type: ignore[misc]  # torch is not read
    """A variational autoencoder (Kingma and Welling 2014). Its noise is an argument, so that it can be the same."""

    def __init__(self, pixels: int = 784, width: int = 128, hidden: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Linear(pixels, width)
        self.mean = nn.Linear(width, hidden)
        self.log_variance = nn.Linear(width, hidden)
        self.decoder = nn.Sequential(nn.Linear(hidden, width), nn.Tanh(), nn.Linear(width, pixels))

    def forward(self, images: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inner = torch.tanh(self.encoder(images.flatten(1)))
        mean, log_variance = self.mean(inner), self.log_variance(inner)
        return self.decoder(mean + noise * torch.exp(0.5 * log_variance)), mean, log_variance


class SequenceLSTM(nn.Module):  # type: ignore[misc]  # torch is not read
    """An LSTM over a sequence, and classes from the mean of its outputs."""

    def __init__(self, width: int = 64, classes: int = 4) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, width, batch_first=True)
        self.classes = nn.Linear(width, classes)

    def forward(self, values: Tensor) -> Tensor:
        outputs, _ = self.lstm(values)
        return cast(Tensor, self.classes(outputs.mean(dim=1)))


class SequenceTransformer(nn.Module):  # type: ignore[misc]  # torch is not read
    """Two layers of ``nn.TransformerEncoder`` over words, and classes from their mean."""

    def __init__(self, words: int = 32, width: int = 64, length: int = 32, classes: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.1 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.classes = nn.Linear(width, classes)

    def forward(self, words: Tensor) -> Tensor:
        return cast(Tensor, self.classes(self.layers(self.words(words) + self.places).mean(dim=1)))


class GCN(nn.Module):  # type: ignore[misc]  # torch is not read
    """A graph convolutional network of two layers (Kipf and Welling 2017), on a dense adjacency."""

    def __init__(self, features: int = 32, width: int = 64, classes: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(features, width)
        self.second = nn.Linear(width, classes)

    def forward(self, adjacency: Tensor, features: Tensor) -> Tensor:
        inner = F.relu(adjacency @ self.first(features))
        return adjacency @ cast(Tensor, self.second(inner))


class SubPixelNet(nn.Module):  # type: ignore[misc]  # torch is not read
    """Super-resolution by a sub-pixel convolution (Shi and others 2016)."""

    def __init__(self, width: int = 32, factor: int = 2) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 5, padding=2)
        self.second = nn.Conv2d(width, width // 2, 3, padding=1)
        self.third = nn.Conv2d(width // 2, factor * factor, 3, padding=1)
        self.factor = factor

    def forward(self, images: Tensor) -> Tensor:
        inner = torch.tanh(self.second(torch.tanh(self.first(images))))
        return F.pixel_shuffle(self.third(inner), self.factor)


class QNet(nn.Module):  # type: ignore[misc]  # torch is not read
    """The value of each action in a state."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
        )

    def forward(self, states: Tensor) -> Tensor:
        return cast(Tensor, self.layers(states))


def written_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of (batch, heads, length, size) as formulas have it, in the format of its inputs."""
    length = query.shape[-2]
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    ahead = torch.triu(torch.ones(length, length, dtype=torch.bool, device=query.device), diagonal=1)
    return torch.softmax(scores.masked_fill(ahead, -math.inf), dim=-1) @ value


def sdpa_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention by ``F.scaled_dot_product_attention``, by whichever backend torch takes."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


#: Implementations that the decoder can be asked for.
ATTENTIONS = {"sdpa": sdpa_attention, "written": written_attention}


class RMSNorm(nn.Module):  # type: ignore[misc]  # torch is not read
    """x / sqrt(mean(x^2) + 1e-6) by a weight, the mean in float32 at least (Llama's own)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, inputs: Tensor) -> Tensor:
        wide = inputs if inputs.dtype == torch.float64 else inputs.float()
        normed = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)
        return self.weight * normed.to(inputs.dtype)


def rotated(inputs: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary position embedding (Su and others 2021) of (batch, heads, length, size), angles in float32 at least."""
    length, size = inputs.shape[-2:]
    wide = torch.float64 if inputs.dtype == torch.float64 else torch.float32
    exponents = torch.arange(0, size, 2, dtype=wide, device=inputs.device) / size
    angles = torch.arange(length, dtype=wide, device=inputs.device)[:, None] * base**-exponents
    cosine, sine = angles.cos().to(inputs.dtype), angles.sin().to(inputs.dtype)
    first, second = inputs.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class _DecoderLayer(nn.Module):  # type: ignore[misc]  # torch is not read
    def __init__(self, width: int, heads: int, attention: str) -> None:
        super().__init__()
        inner = 8 * width // 3
        self.heads, self.attention = heads, attention
        self.attention_norm, self.feed_norm = RMSNorm(width), RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        normed = self.attention_norm(inputs)
        query, key, value = (
            part(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        seen = ATTENTIONS[self.attention](rotated(query), rotated(key), value)
        inputs = inputs + self.output(seen.transpose(1, 2).flatten(2))
        normed = self.feed_norm(inputs)
        return inputs + cast(Tensor, self.down(F.silu(self.gate(normed)) * self.up(normed)))


class Llama(nn.Module):  # type: ignore[misc]  # torch is not read
    """A decoder as Llama's (Touvron and others 2023): RMSNorm, rotary positions, SwiGLU; the next word's logits."""

    def __init__(
        self, words: int = 32, width: int = 64, heads: int = 4, layers: int = 2, attention: str = "sdpa"
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(_DecoderLayer(width, heads, attention) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.logits = nn.Linear(width, words, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        inner = self.words(words)
        for layer in self.layers:
            inner = layer(inner)
        return cast(Tensor, self.logits(self.norm(inner)))
