"""Training of small TensorFlow models with one operator computed in another format.

The models are those of :mod:`opscanner.dynamic.experiments`, written with TensorFlow's functions: the first weights and
the batches are torch's to the last bit, so that a difference between the frameworks is one of their operators.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from opscanner.dynamic.experiments.models import Experiment, ModelRow, model_named
from opscanner.dynamic.training.deviation import FLOAT64, ONE_ULP, Change, Weights
from opscanner.dynamic.training.pytorch import move_one_weight
from opscanner.errors import UsageError

# Read when TensorFlow is imported: without oneDNN it runs its own kernels, as everywhere here; it greets at INFO.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

#: As torch.nn.BatchNorm2d has it.
_EPSILON = 1e-5
_MOMENTUM = 0.9


class _Operators:
    """Calls operators, one of them otherwise.

    A cast is its own derivative's cast: what comes back through them is rounded on the way, as what went forward.
    """

    def __init__(self, change: Change | None, dtype: Any) -> None:
        self._change, self._dtype = change, dtype
        self.called: dict[str, None] = {}

    def __call__(self, name: str, function: Callable[..., Any], *tensors: Any) -> Any:
        self.called[name] = None
        change = self._change
        if change is None or change.operator != name:
            return function(*tensors)
        try:
            outputs = function(*(tf.cast(tf.cast(part, change.format), change.computed_in) for part in tensors))
        except (tf.errors.OpError, TypeError) as error:
            raise UsageError(f"{name} does not run in {change.computed_in}: {error}", "try another format") from error
        return tf.cast(tf.cast(outputs, change.format), self._dtype)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return tf.matmul(x, weight, transpose_b=True) + bias


def _batch_norm(x: Any, weight: Any, bias: Any) -> Any:
    mean, variance = tf.nn.moments(x, axes=[0, 1, 2])
    return tf.nn.batch_normalization(x, mean, variance, bias, weight, _EPSILON)


def _convolution(x: Any, weight: Any, bias: Any) -> Any:
    """Stride 2, one row of zeros on every side (TensorFlow's "SAME" pads on one side alone); torch's weights."""
    padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
    return tf.nn.conv2d(padded, tf.transpose(weight, [2, 3, 1, 0]), strides=2, padding="VALID") + bias


def _cnn(call: _Operators, weights: dict[str, Any], images: Any) -> Any:
    """Of :class:`opscanner.dynamic.experiments.networks.ConvNet`."""
    x = tf.transpose(images, [0, 2, 3, 1])
    for place in (0, 3, 6):
        convolution, norm = f"features.{place}", f"features.{place + 1}"
        x = call("conv2d", _convolution, x, weights[f"{convolution}.weight"], weights[f"{convolution}.bias"])
        x = call("batch_norm", _batch_norm, x, weights[f"{norm}.weight"], weights[f"{norm}.bias"])
        x = call("selu", tf.nn.selu, x)
    x = call("avg_pool2d", lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), x)
    x = tf.reshape(tf.transpose(x, [0, 3, 1, 2]), [x.shape[0], -1])
    x = call("softplus", tf.nn.softplus, call("linear", _linear, x, weights["hidden.weight"], weights["hidden.bias"]))
    return call("linear", _linear, x, weights["classes.weight"], weights["classes.bias"])


def _perceptron(call: _Operators, weights: dict[str, Any], images: Any) -> Any:
    """Of :class:`opscanner.dynamic.experiments.networks.Perceptron`."""
    x = tf.reshape(images, [images.shape[0], -1])
    for place in (1, 3, 5):
        x = call("linear", _linear, x, weights[f"layers.{place}.weight"], weights[f"layers.{place}.bias"])
        if place != 5:
            x = call("gelu", tf.nn.gelu, x)
    return x


#: Models that are written in TensorFlow, by the names of torch's.
MODELS: dict[str, Callable[[_Operators, dict[str, Any], Any], Any]] = {"cnn": _cnn, "mnist-mlp": _perceptron}


class TensorFlowLearner:
    """Stochastic gradient descent with momentum 0.9, as torch defines it: v = 0.9 v + g, w = w - rate v."""

    def __init__(self, row: ModelRow, seed: int, change: Change | None, learning_rate: float, scale: float) -> None:
        self._experiment: Experiment = row.build(seed, scale=scale)
        self._forward, self._learning_rate = MODELS[row.name], learning_rate
        if change is not None and change.operator == ONE_ULP:
            move_one_weight(self._experiment.model, seed)
        self._dtype = tf.float64 if change is not None and change.operator == FLOAT64 else tf.float32
        self._weights = {
            name: tf.Variable(part.detach().numpy(), dtype=self._dtype)
            for name, part in self._experiment.model.named_parameters()
        }
        self._moving = {name: tf.zeros_like(part) for name, part in self._weights.items()}
        self.call = _Operators(None if change is None or change.is_baseline else change, self._dtype)

    def _logits(self, step: int) -> tuple[Any, Any]:
        images, classes = self._experiment.batch(step)
        return self._forward(self.call, dict(self._weights), tf.constant(images.numpy(), self._dtype)), classes.numpy()

    def step(self, index: int) -> float:
        with tf.GradientTape() as tape:
            logits, classes = self._logits(index)
            losses = self.call(
                "log_softmax",
                lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=x),
                logits,
            )
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, self._weights)
        for name, part in self._weights.items():
            self._moving[name] = _MOMENTUM * self._moving[name] + gradients[name]
            part.assign_sub(self._learning_rate * self._moving[name])
        return float(loss)

    def weights(self) -> Weights:
        return {name: np.array(part.numpy(), dtype=np.float64) for name, part in self._weights.items()}

    def score(self) -> float | None:
        """With the statistics of the batch, as the torch learner."""
        right = []
        for step in range(1, 5):
            logits, classes = self._logits(-step)
            right.append(np.mean(np.argmax(logits.numpy(), axis=1) == classes))
        return float(np.mean(right))


class TensorFlowTrainer:
    """Trainings of one small model, called eagerly: what runs is what is written, no graph is rewritten.

    With one thread inside an operator where TensorFlow still lets itself be told: sums over threads may come in any
    order.
    """

    framework = "tensorflow"

    def __init__(self, model: str, *, scale: float = 1.0, learning_rate: float | None = None) -> None:
        with suppress(RuntimeError):  # it has begun to run
            tf.config.threading.set_intra_op_parallelism_threads(1)
        if model not in MODELS:
            raise UsageError(f"no model named {model!r} is written in TensorFlow", f"one of {', '.join(MODELS)}")
        self._row = model_named(model)
        self._scale = scale
        self._learning_rate = self._row.learning_rate if learning_rate is None else learning_rate
        self.versions = f"tensorflow {tf.__version__}"
        self.model = self._row.name + (f" x{scale:g}" if scale != 1 else "")
        if learning_rate is not None:
            self.model += f" at {learning_rate:g}"

    def operators(self) -> Sequence[str]:
        learner = self.learner(0, None)
        learner.step(0)
        return tuple(learner.call.called)

    def learner(self, seed: int, change: Change | None) -> TensorFlowLearner:
        return TensorFlowLearner(self._row, seed, change, self._learning_rate, self._scale)
