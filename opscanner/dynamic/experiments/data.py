"""Generated data for small models: the same for the same seed and step, on any day, without a download.

Every function takes a generator of its own and never touches torch's global random state. Tensors are float32 and
int64, on the CPU.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

#: Segments of a seven-segment digit as (row 0..2, column 0..1, is it horizontal), and those that each digit lights.
_SEGMENTS = ((0, 0, True), (0, 1, False), (1, 1, False), (2, 0, True), (1, 0, False), (0, 0, False), (1, 0, True))
_LIT = ("012345", "12", "01346", "01236", "1256", "02356", "023456", "012", "0123456", "012356")

# The cart-pole of Barto, Sutton and Anderson (1983), with the constants that Gymnasium's CartPole-v1 uses.
_GRAVITY, _CART, _POLE, _HALF_LENGTH, _FORCE, _SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
_FURTHEST, _STEEPEST = 2.4, 12 * math.pi / 180


def generator_of(seed: int, *words: int) -> torch.Generator:
    """A generator for a seed and what it is for: streams of other words have nothing to do with each other."""
    mixed = seed
    for word in words:
        # An odd multiplier (2^64 / golden ratio, Knuth 6.4) keeps neighbouring seeds and steps apart.
        mixed = ((mixed + 1) * 0x9E3779B97F4A7C15 + word) % 2**63
    return torch.Generator().manual_seed(mixed)


def smooth_images(generator: torch.Generator, count: int, channels: int, size: int, coarse: int = 6) -> Tensor:
    """(count, channels, size, size): random fields of ``coarse`` by ``coarse`` normal numbers, drawn out smoothly."""
    field = torch.randn(count, channels, coarse, coarse, generator=generator)
    return torch.nn.functional.interpolate(field, size=(size, size), mode="bicubic", align_corners=False)


def labelled_images(
    generator: torch.Generator, templates: Tensor, count: int, noise: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Images (count, channels, size, size) of the classes of ``templates``, shifted, with noise; and their classes."""
    classes = torch.randint(len(templates), (count,), generator=generator)
    shifts = torch.randint(-2, 3, (count, 2), generator=generator).tolist()
    images = torch.stack(
        [
            torch.roll(templates[index], tuple(shift), dims=(1, 2))
            for index, shift in zip(classes.tolist(), shifts, strict=True)
        ]
    )
    return images + noise * torch.randn(images.shape, generator=generator), classes


def digits(generator: torch.Generator, count: int, size: int = 28) -> tuple[Tensor, Tensor]:
    """Seven-segment digits in [0, 1], (count, 1, size, size), at random places and strengths, with noise; 0 to 9."""
    classes = torch.randint(10, (count,), generator=generator)
    images = torch.zeros(count, 1, size, size)
    length, thickness = size // 4, max(1, size // 14)
    corners = torch.randint(size // 7, size // 7 + 4, (count, 2), generator=generator)
    strengths = 0.5 + 0.5 * torch.rand(count, generator=generator)
    for image, digit, (top, left), strength in zip(
        images, classes.tolist(), corners.tolist(), strengths.tolist(), strict=True
    ):
        left = left + length // 2
        for lit in _LIT[digit]:
            row, column, horizontal = _SEGMENTS[int(lit)]
            y, x = top + row * length, left + column * length
            height, width = (thickness, length + thickness) if horizontal else (length + thickness, thickness)
            image[0, y : y + height, x : x + width] = strength
    return (images + 0.2 * torch.randn(images.shape, generator=generator)).clamp(0, 1), classes


def waves(generator: torch.Generator, count: int, length: int, classes: int = 4) -> tuple[Tensor, Tensor]:
    """Noisy sines (count, length, 1) of one frequency a class, begun in their first quarter, and their classes."""
    kinds = torch.randint(classes, (count,), generator=generator)
    frequencies = 0.2 + 0.15 * kinds
    phases = 0.5 * math.pi * torch.rand(count, generator=generator)
    angles = frequencies[:, None] * torch.arange(length) + phases[:, None]
    noise = 0.2 * torch.randn(count, length, generator=generator)
    return (torch.sin(angles) + noise)[..., None], kinds


def chain_tables(generator: torch.Generator, chains: int, words: int) -> Tensor:
    """Transition probabilities of Markov chains, (chains, words, words): a few likely successors of every word."""
    return torch.softmax(2.5 * torch.randn(chains, words, words, generator=generator), dim=2)


def walks(generator: torch.Generator, tables: Tensor, count: int, length: int) -> tuple[Tensor, Tensor]:
    """Walks (count, length) through chains of ``tables`` that are taken at random, and which chain each one walks."""
    chains, words, _ = tables.shape
    kinds = torch.randint(chains, (count,), generator=generator)
    places = [torch.randint(words, (count,), generator=generator)]
    for _ in range(length - 1):
        rows = tables[kinds, places[-1]]
        places.append(torch.multinomial(rows, 1, generator=generator)[:, 0])
    return torch.stack(places, dim=1), kinds


def communities(
    generator: torch.Generator, nodes: int, features: int, classes: int = 4
) -> tuple[Tensor, Tensor, Tensor]:
    """A graph of communities: D^-1/2 (A + I) D^-1/2 (nodes, nodes), features (nodes, features), classes (nodes)."""
    kinds = torch.randint(classes, (nodes,), generator=generator)
    chance = torch.where(kinds[:, None] == kinds[None, :], 0.08, 0.02)
    upper = torch.triu(torch.rand(nodes, nodes, generator=generator) < chance, diagonal=1).float()
    adjacency = upper + upper.T + torch.eye(nodes)
    scale = adjacency.sum(dim=1).rsqrt()
    centres = torch.randn(classes, features, generator=generator)
    values = 0.5 * centres[kinds] + torch.randn(nodes, features, generator=generator)
    return scale[:, None] * adjacency * scale[None, :], values, kinds


def cart_pole(generator: torch.Generator, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """One step of a cart-pole from random states: states (count, 4), actions, rewards, next states, whether it stands.

    A state is place (m), speed (m/s), angle (rad), angular speed (rad/s); action 0 pushes left, 1 right, with 10 N.
    """
    limits = torch.tensor([_FURTHEST, 2.0, _STEEPEST, 2.0])
    states = limits * (2 * torch.rand(count, 4, generator=generator) - 1)
    actions = torch.randint(2, (count,), generator=generator)
    after = push(states, actions)
    stands = (after[:, 0].abs() <= _FURTHEST) & (after[:, 2].abs() <= _STEEPEST)
    # Better than 1 for standing: a pole that stands upright in the middle, so that the reward says more than the end.
    rewards = stands * (1 - 0.5 * (after[:, 2] / _STEEPEST) ** 2 - 0.1 * (after[:, 0] / _FURTHEST) ** 2)
    return states, actions, rewards, after, stands.float()


def push(states: Tensor, actions: Tensor) -> Tensor:
    """States (count, 4) 0.02 s after a push by Euler's method, as in Barto, Sutton and Anderson's equations.

    >>> push(torch.zeros(1, 4), torch.tensor([1]))[0, 1].item() > 0
    True
    """
    _place, speed, angle, turn = states.unbind(1)
    force = _FORCE * (2.0 * actions - 1.0)
    sine, cosine, total = torch.sin(angle), torch.cos(angle), _CART + _POLE
    pushed = (force + _POLE * _HALF_LENGTH * turn**2 * sine) / total
    turned = (_GRAVITY * sine - cosine * pushed) / (_HALF_LENGTH * (4 / 3 - _POLE * cosine**2 / total))
    moved = pushed - _POLE * _HALF_LENGTH * turned * cosine / total
    changes = torch.stack([speed, moved, turn, turned], dim=1)
    return states + _SECONDS * changes
