"""One run: a model, a seed, a prior; its error at each position on the test draw."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float

from experiments.gaussian_process.model import ModelConfig, Regressor
from experiments.gaussian_process.prior import Draw, Prior

TEST_KEY, VALIDATION_KEY, TRAINING_KEY = 1, 2, 3
"""What keeps the three draws apart; see `stream`."""


@dataclasses.dataclass(frozen=True)
class Training:
    """How every model is trained.

    Attributes:
        steps: of the optimiser.
        sequences: of each step, drawn anew.
        length: L, pairs of each sequence.
        learning_rate: its peak; AdamW with linear warm-up and cosine decay to a tenth.
        warmup: steps.
        checks: how often the course of the validation error is taken.
        test_sequences: of the test draw.
        validation_sequences: of the validation draw.
    """

    steps: int = 1000
    sequences: int = 8
    length: int = 64
    learning_rate: float = 1e-2
    warmup: int = 100
    checks: int = 10
    test_sequences: int = 512
    validation_sequences: int = 256

    def __post_init__(self) -> None:
        if self.steps % self.checks:
            raise ValueError(
                f"steps: got {self.steps}, expected a multiple of the {self.checks} checks, "
                f"evenly spaced; choose one."
            )

    def optimiser(self) -> optax.GradientTransformation:
        """AdamW, with the gradient's norm clipped."""
        rate = optax.warmup_cosine_decay_schedule(
            0.0, self.learning_rate, self.warmup, self.steps, self.learning_rate / 10
        )
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=1e-4))


def stream(purpose: int, seed: int = 0) -> Array:
    """The key of a draw: of test and validation always the same, of training that of the seed."""
    return jax.random.fold_in(jax.random.key(purpose), seed)


def draw_test(prior: Prior, training: Training) -> Draw:
    """The fixed test draw of a prior."""
    return prior.sample(stream(TEST_KEY), training.test_sequences, training.length)


def squared_error(model: Callable[..., Array], draw: Draw) -> Float[Array, "L"]:
    """The mean over sequences at each position, against the noisy value."""
    return jnp.mean((model(draw.x, draw.y) - draw.y) ** 2, axis=0)


class Fit(NamedTuple):
    """A trained model: its error on a draw, the course of the validation error, its size."""

    error: Callable[[Draw], Float[Array, "L"]]
    validation: list[dict[str, float]]
    parameters: int


def fit(prior: Prior, model: ModelConfig, training: Training, seed: int) -> Fit:
    """Train once; the test draw is not looked at.

    Args:
        prior: what is drawn.
        model: the description.
        training: how.
        seed: decides the parameters, and the data of every step: at one seed all models see the
            same.

    Raises:
        ValueError: a validation error that is not finite.
    """
    graph, state = nnx.split(Regressor(model, rngs=nnx.Rngs(seed)), nnx.Param)
    params, key = nnx.to_pure_dict(state), stream(TRAINING_KEY, seed)
    carry = (params, training.optimiser().init(params))
    checked = prior.sample(stream(VALIDATION_KEY), training.validation_sequences, training.length)
    course = []
    for numbers in np.split(np.arange(training.steps), training.checks):
        carry = _advance(graph, prior, training, key, carry, numbers)
        step, error = int(numbers[-1]) + 1, float(_error(graph, carry[0], checked).mean())
        require_finite(error, f"the validation error after step {step}")
        course.append({"step": step, "mse": round(error, 6)})
    size = sum(leaf.size for leaf in jax.tree.leaves(carry[0]))
    return Fit(functools.partial(_error, graph, carry[0]), course, size)


def run(prior: Prior, model: ModelConfig, training: Training, seed: int) -> dict[str, Any]:
    """Train and test once; the arguments are those of `fit`.

    Returns:
        A dict for JSON: ``test_mse`` at each position, ``trivial_mse`` of the prediction 0 on the
        same draw, ``validation`` (step and error), ``parameters``,
        ``processor_seconds``, ``settings``, ``jax``.

    Raises:
        ValueError: an error that is not finite.
    """
    start = time.process_time()
    fitted, test = fit(prior, model, training, seed), draw_test(prior, training)
    errors = np.asarray(fitted.error(test))
    require_finite(float(errors.sum()), "the test error")
    return {
        "test_mse": [round(float(error), 6) for error in errors],
        "trivial_mse": round(float(jnp.mean(test.y**2)), 6),
        "validation": fitted.validation,
        "parameters": fitted.parameters,
        "processor_seconds": round(time.process_time() - start, 1),
        "settings": {"dim": model.dim, **dataclasses.asdict(training)},
        "jax": jax.__version__,
    }


def require_finite(error: float, what: str) -> None:
    """Refuse an error that says nothing."""
    if not np.isfinite(error):
        raise ValueError(f"{what}: got {error}, expected a finite number; lower learning_rate.")


@functools.partial(jax.jit, static_argnums=0)
def _error(graph: Any, params: Any, draw: Draw) -> Float[Array, "L"]:
    return squared_error(nnx.merge(graph, params), draw)


@functools.partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=4)
def _advance(
    graph: Any, prior: Prior, training: Training, key: Array, carry: Any, numbers: Array
) -> Any:
    """Steps of training as one program; the data of a step is a function of seed and step."""
    optimiser = training.optimiser()

    def loss(params: Any, draw: Draw) -> Array:
        return _error(graph, params, draw).mean()

    def step(carry: Any, number: Array) -> tuple[Any, None]:
        params, state = carry
        draw = prior.sample(jax.random.fold_in(key, number), training.sequences, training.length)
        updates, state = optimiser.update(jax.grad(loss)(params, draw), state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, carry, numbers)[0]
