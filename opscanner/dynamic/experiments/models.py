"""Models of the published study's kinds with data and a loss, one row each in :data:`MODELS`.

The study trained CNN, ResNet, VAE, LSTM, Transformer, MNIST, GCN, super-resolution and reinforcement learning on data
sets that must be fetched. Here they are small and their data is generated; what is measured on them is said of them
alone. A training step takes milliseconds on one CPU core; ``scale`` multiplies widths (channels, hidden sizes) for
layers of realistic size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own name for it
from torch import Tensor, nn

from opscanner.dynamic.experiments import data, networks
from opscanner.errors import UsageError

Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Experiment:
    """A model, freshly initialised, with what trains it.

    Parameters
    ----------
    model : torch.nn.Module
        In float32, training mode, on the CPU.
    batch : callable
        Step (from 0) to a batch, a tuple of tensors; the same whenever it is asked. Steps below 0 are batches that
        training does not see, for scores.
    loss : callable
        Model and batch to a scalar that training lowers. Computes in the format of the model if the batch's
        floating-point tensors have it.
    score : callable or None
        Model and batch to the share of right answers, where there is such a thing.
    """

    name: str
    seed: int
    model: nn.Module
    batch: Callable[[int], Batch]
    loss: Callable[[nn.Module, Batch], Tensor]
    score: Callable[[nn.Module, Batch], float] | None = None


@dataclass(frozen=True)
class ModelRow:
    """How an experiment is made.

    Parameters
    ----------
    learning_rate : float
        Of plain stochastic gradient descent with momentum 0.9, with which it learns in some hundred steps.
    """

    name: str
    says: str
    make: Callable[..., Experiment]
    learning_rate: float = 0.05

    def build(self, seed: int = 0, *, scale: float = 1.0, **options: Any) -> Experiment:
        """The experiment of a seed: weights and data follow from it, and torch's random state is left as it was.

        Parameters
        ----------
        scale : float
            Multiplies every width; the batch and the data stay.
        **options
            ``batch_size``; ``attention`` of ``llama``: ``sdpa`` or ``written``; ``length`` of ``transformer`` and
            ``llama``.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(data.generator_of(seed, 0).initial_seed())
            return self.make(seed, scale, **options)


def _width(base: int, scale: float) -> int:
    """A multiple of 8, as heads and vector units like it."""
    return max(8, 8 * round(base * scale / 8))


def _cross_entropy(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(*batch[:-1]), batch[-1])


def _right(model: nn.Module, batch: Batch) -> float:
    return float((model(*batch[:-1]).argmax(dim=-1) == batch[-1]).double().mean())


def _classifier(name: str, seed: int, model: nn.Module, batch: Callable[[int], Batch]) -> Experiment:
    return Experiment(name, seed, model, batch, _cross_entropy, _right)


def _image_batches(seed: int, batch_size: int) -> Callable[[int], Batch]:
    templates = data.smooth_images(data.generator_of(seed, 1), 10, 3, 32)
    return lambda step: data.labelled_images(data.generator_of(seed, 2, step), templates, batch_size)


def _digit_batches(seed: int, batch_size: int) -> Callable[[int], Batch]:
    return lambda step: data.digits(data.generator_of(seed, 2, step), batch_size)


def _cnn(seed: int, scale: float, batch_size: int = 32) -> Experiment:
    return _classifier("cnn", seed, networks.ConvNet(_width(24, scale)), _image_batches(seed, batch_size))


def _resnet(seed: int, scale: float, batch_size: int = 8) -> Experiment:
    return _classifier("resnet", seed, networks.ResNet(_width(16, scale)), _image_batches(seed, batch_size))


def _mnist_mlp(seed: int, scale: float, batch_size: int = 128) -> Experiment:
    model = networks.Perceptron(width=_width(256, scale))
    return _classifier("mnist-mlp", seed, model, _digit_batches(seed, batch_size))


def _mnist_cnn(seed: int, scale: float, batch_size: int = 32) -> Experiment:
    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return F.nll_loss(model(batch[0]), batch[1])

    model = networks.DigitNet(_width(12, scale))
    return Experiment("mnist-cnn", seed, model, _digit_batches(seed, batch_size), loss, _right)


def _vae(seed: int, scale: float, batch_size: int = 64) -> Experiment:
    def batch(step: int) -> Batch:
        generator = data.generator_of(seed, 2, step)
        images, _ = data.digits(generator, batch_size)
        return images, torch.randn(batch_size, 16, generator=generator)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        logits, mean, log_variance = model(*batch)
        likelihood = F.binary_cross_entropy_with_logits(logits, batch[0].flatten(1))
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).mean()
        return likelihood + 0.02 * divergence

    return Experiment("vae", seed, networks.VAE(width=_width(128, scale)), batch, loss)


def _lstm(seed: int, scale: float, batch_size: int = 32) -> Experiment:
    def batch(step: int) -> Batch:
        return data.waves(data.generator_of(seed, 2, step), batch_size, 32)

    return _classifier("lstm", seed, networks.SequenceLSTM(_width(64, scale)), batch)


def _transformer(seed: int, scale: float, batch_size: int = 16, length: int = 32) -> Experiment:
    tables = data.chain_tables(data.generator_of(seed, 1), 4, 32)

    def batch(step: int) -> Batch:
        return data.walks(data.generator_of(seed, 2, step), tables, batch_size, length)

    model = networks.SequenceTransformer(width=_width(64, scale), length=length)
    return _classifier("transformer", seed, model, batch)


def _gcn(seed: int, scale: float, nodes: int = 600) -> Experiment:
    adjacency, features, kinds = data.communities(data.generator_of(seed, 1), nodes, 32)
    shuffled = torch.randperm(nodes, generator=data.generator_of(seed, 3))
    known, asked = shuffled[: nodes // 2], shuffled[nodes // 2 :]

    def batch(step: int) -> Batch:
        """Half of the known nodes, drawn anew; the asked ones for a score."""
        if step < 0:
            return adjacency, features, asked, kinds[asked]
        some = known[torch.randperm(len(known), generator=data.generator_of(seed, 2, step))[: len(known) // 2]]
        return adjacency, features, some, kinds[some]

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch[0], batch[1])[batch[2]], batch[3])

    def score(model: nn.Module, batch: Batch) -> float:
        return float((model(batch[0], batch[1])[batch[2]].argmax(dim=1) == batch[3]).double().mean())

    return Experiment("gcn", seed, networks.GCN(width=_width(128, scale)), batch, loss, score)


def _super_resolution(seed: int, scale: float, batch_size: int = 8) -> Experiment:
    def batch(step: int) -> Batch:
        generator = data.generator_of(seed, 2, step)
        sharp = data.smooth_images(generator, batch_size, 1, 48, coarse=16)
        return F.avg_pool2d(sharp, 2), sharp

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return F.mse_loss(model(batch[0]), batch[1])

    return Experiment("super-resolution", seed, networks.SubPixelNet(_width(32, scale)), batch, loss)


def _cart_pole(seed: int, scale: float, batch_size: int = 256) -> Experiment:
    def batch(step: int) -> Batch:
        return data.cart_pole(data.generator_of(seed, 2, step), batch_size)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        """Of deep Q-learning (Mnih and others 2015): values against reward and best value after, without gradient."""
        states, actions, rewards, after, stands = batch
        value = model(states).gather(1, actions[:, None])[:, 0]
        target = 0.1 * rewards + 0.9 * stands * model(after).detach().max(dim=1).values
        return F.smooth_l1_loss(value, target)

    return Experiment("cart-pole", seed, networks.QNet(_width(256, scale)), batch, loss)


def _llama(seed: int, scale: float, batch_size: int = 8, length: int = 32, attention: str = "sdpa") -> Experiment:
    if attention not in networks.ATTENTIONS:
        raise UsageError(f"no attention is named {attention!r}", f"one of {', '.join(networks.ATTENTIONS)}")
    tables = data.chain_tables(data.generator_of(seed, 1), 1, 32)

    def batch(step: int) -> Batch:
        words, _ = data.walks(data.generator_of(seed, 2, step), tables, batch_size, length + 1)
        return words[:, :-1], words[:, 1:]

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    model = networks.Llama(width=_width(64, scale), attention=attention)
    return Experiment("llama", seed, model, batch, loss, _right)


#: One row a model: its name, what it is, how it is made, and a learning rate at which it learns.
MODELS: dict[str, ModelRow] = {
    row.name: row
    for row in (
        ModelRow("cnn", "convolution, batch norm, SELU, softplus; ten kinds of images", _cnn, 0.02),
        ModelRow("resnet", "four residual blocks; ten kinds of images", _resnet, 0.02),
        ModelRow("vae", "variational autoencoder of seven-segment digits", _vae, 0.2),
        ModelRow("lstm", "LSTM; the frequency of noisy waves", _lstm, 0.3),
        ModelRow("transformer", "two encoder layers; which Markov chain walked", _transformer, 0.02),
        ModelRow("mnist-mlp", "perceptron with GELU; seven-segment digits", _mnist_mlp, 0.1),
        ModelRow("mnist-cnn", "two convolutions and max pooling; seven-segment digits", _mnist_cnn, 0.05),
        ModelRow("gcn", "graph convolution; communities of a random graph", _gcn, 0.1),
        ModelRow("super-resolution", "sub-pixel convolution; smooth images, twice as large", _super_resolution, 0.02),
        ModelRow("cart-pole", "deep Q-learning; a pole on a cart", _cart_pole, 0.005),
        ModelRow("llama", "RMSNorm, rotary positions, causal attention, SwiGLU; the next word", _llama, 0.1),
    )
}


def model_named(name: str) -> ModelRow:
    """A row of :data:`MODELS`.

    Raises
    ------
    UsageError
        When there is no such row; it lists those that there are.
    """
    if name not in MODELS:
        raise UsageError(f"no model is named {name!r}", f"one of {', '.join(MODELS)}")
    return MODELS[name]
