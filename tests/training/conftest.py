from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax import (
    CEMConfig,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    PreconditionerConfig,
    Transformer,
    TransformerConfig,
)
from cem_jax.data import PackedRows, Pipeline, pack
from cem_jax.training import (
    AdamWConfig,
    ScheduleConfig,
    State,
    TrainingConfig,
    initial_state,
    make_optimiser,
    make_step,
)


class Tiny(NamedTuple):
    """A small full CEM, whose step is compiled once for all tests of training."""

    model: TransformerConfig
    config: TrainingConfig
    rows: PackedRows
    batches: Pipeline
    optimiser: Any
    graph: Any
    step: Any
    initial: State

    def state(self) -> State:
        """A fresh one, to be consumed."""
        return jax.tree.map(jnp.copy, self.initial)


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    descent = DescentConfig(steps=2, preconditioner=PreconditionerConfig(rank=2))
    attention = CEMConfig(InteractionConfig(2, diagonal="shared", relative_bias=4), descent)
    mlp = CEMConfig(ElementwiseConfig(24), descent)
    model = TransformerConfig(64, 16, 1, attention, mlp)
    config = TrainingConfig(
        steps=6,
        batch=2,
        length=8,
        record_every=2,
        evaluate_every=3,
        save_every=3,
        optimiser=AdamWConfig(learning_rate=1e-2, schedule=ScheduleConfig(warmup=1 / 3)),
    )
    rng = np.random.default_rng(0)
    documents = [[1, *rng.integers(3, 64, size).tolist(), 2] for size in (5, 20, 3, 9, 30)]
    rows = pack(documents, config.length)
    optimiser = make_optimiser(config.optimiser, config.steps)
    batches = Pipeline(rows, batch=config.batch, seed=config.seed)
    graph, initial = initial_state(
        lambda rngs: Transformer(model, rngs=rngs), optimiser, seed=config.seed
    )
    step = make_step(graph, optimiser)
    return Tiny(model, config, rows, batches, optimiser, graph, step, initial)
