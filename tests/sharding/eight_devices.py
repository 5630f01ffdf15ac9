"""What eight simulated devices compute, hold and send, as JSON on stdout.

    python eight_devices.py gradients DTYPE | accumulated DTYPE [MESH ...] | placement | gathered
        | tiles

A program of its own: how many devices there are is decided before JAX begins.
"""

import dataclasses
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cem_jax import (
    CEMConfig,
    ContextScoreConfig,
    DescentConfig,
    InteractionConfig,
    MHAConfig,
    Recipe,
    Transformer,
    TransformerConfig,
)
from cem_jax.data.packing import Batch
from cem_jax.models import parameter_axes
from cem_jax.ops.visibility import Sites
from cem_jax.sharding import Layout, MeshShape
from cem_jax.sharding.collectives import collectives
from cem_jax.training import MuonConfig, fresh_state, make_optimiser, make_step
from cem_jax.training.step import gradients_of

MESHES = ("single", "data", "fsdp", "fsdp+tensor", "context")
BATCH, LENGTH, VOCABULARY = 8, 64, 64


def layout(name):
    return Layout.of(MeshShape.parse(name, 8))


def model(dtype="float32"):
    recipe = Recipe(steps=2, remat="full")
    config = TransformerConfig.tiny("cem", recipe, vocab_size=VOCABULARY)
    return dataclasses.replace(config, layers=2, dtype=dtype)


def born(config, placed):
    """The graph, the optimiser and a state at step 0, where it lives."""
    axes = parameter_axes(config)
    optimiser = make_optimiser(MuonConfig(), 10, axes)
    fresh = fresh_state(
        lambda rngs: Transformer(config, rngs=rngs),
        optimiser,
        seed=0,
        sharding=lambda shapes: placed.state(shapes, axes),
    )
    return fresh.graph, optimiser, fresh.create()


def batch(placed, rows=BATCH):
    """Eight rows of two documents and padding, or more."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, VOCABULARY, (rows, LENGTH + 1))
    segment = np.ones((rows, LENGTH), np.int32)
    segment[:, 40:], segment[3, 50:] = 2, 0
    position = np.tile(np.arange(LENGTH), (rows, 1))
    position[:, 40:] -= 40
    mask = (segment > 0) & (rng.random((rows, LENGTH)) < 0.9)
    arrays = (jnp.asarray(x) for x in (tokens[:, :-1], tokens[:, 1:], mask))
    placed.require_batch(rows, LENGTH)
    sites = Sites(jnp.asarray(position), jnp.asarray(segment))
    return jax.device_put(Batch(*arrays, sites), placed.batch)


def gradients(dtype):
    """Initial values, loss and gradients of each mesh against those of one device."""
    jax.config.update("jax_enable_x64", dtype == "float64")
    found, base = {}, None
    for name in MESHES:
        placed = layout(name)
        graph, _, state = born(model(dtype), placed)
        params = jax.tree.map(lambda x: x.astype(dtype), state["params"])

        def run(params, batch, graph=graph, placed=placed):
            with placed.scope():
                return gradients_of(graph, params, batch)

        slopes, metrics = jax.jit(run)(params, batch(placed))
        own = {"loss": float(metrics["loss"]), "start": host(params), "slopes": host(slopes)}
        base = base or own
        found[name] = compared(own, base)
    return found


def accumulated(dtype, *meshes):
    """Loss and gradients of micro-batches on each mesh against those of the whole on one device.

    And what is sent in them where only rows are spread. On all meshes by default.
    """
    jax.config.update("jax_enable_x64", dtype == "float64")
    config, rows = dataclasses.replace(model(dtype), layers=1), 2 * BATCH
    graph, _, state = born(config, layout("single"))
    kept = "float32" if dtype == "bfloat16" else dtype
    params = jax.tree.map(lambda x: np.asarray(x, kept), state["params"])
    found, base = {}, None
    for name, parts in (("single", 1), *((name, 2) for name in meshes or MESHES)):
        placed = layout(name)

        def run(params, batch, placed=placed, parts=parts):
            with placed.scope():
                return gradients_of(graph, params, batch, parts)

        there = jax.device_put(params, placed.parameters(params, parameter_axes(config)))
        compiled = jax.jit(run).lower(there, batch(placed, rows)).compile()
        slopes, metrics = compiled(there, batch(placed, rows))
        own = {"loss": float(metrics["loss"]), "start": host(params), "slopes": host(slopes)}
        base = base or own
        found[name] = compared(own, base) | {"sent": sorted(collectives(compiled.as_text()))}
    return found


def compared(own, base):
    """Whether it starts equal, and how far loss and each gradient are from the first mesh's."""
    far = {
        name: float(np.linalg.norm(own["slopes"][name] - value) / np.linalg.norm(value))
        for name, value in base["slopes"].items()
    }
    worst = max(far, key=far.get)
    equal = all((own["start"][name] == value).all() for name, value in base["start"].items())
    loss = abs(own["loss"] - base["loss"]) / base["loss"]
    return {"loss": loss, "gradient": far[worst], "of": worst, "starts_equal": equal}


def placement():
    """How many arrays of the state are whole on every device, and which a step moves."""
    found = {}
    for name in MESHES:
        placed = layout(name)
        graph, optimiser, state = born(model(), placed)
        leaves = jax.tree_util.tree_leaves_with_path(state)
        before = {jax.tree_util.keystr(path): (leaf.sharding, leaf.ndim) for path, leaf in leaves}
        # With all that a step can do, so that nothing of it moves the state.
        step = make_step(graph, optimiser, placed.scope, accumulate=2, non_finite="skip")
        after = step(state, batch(placed, 2 * BATCH))[0]
        moved = [
            jax.tree_util.keystr(path)
            for path, leaf in jax.tree_util.tree_leaves_with_path(after)
            if not leaf.sharding.is_equivalent_to(*before[jax.tree_util.keystr(path)])
        ]
        whole = [path for path, (place, _) in before.items() if place.is_fully_replicated]
        found[name] = {
            "moved": moved,
            "leaves": len(before),
            "whole": len(whole),
            # Of one number for each layer, or of none.
            "whole_arrays": [path for path in whole if before[path][1] > 1],
        }
    return found


def gathered():
    """Bytes that sublayers gather where positions are in eight parts."""
    dim, heads = 64, 4
    placed = layout("context")
    found = {"bytes_of_a_tensor": BATCH * LENGTH * dim * 4}
    sublayers = {
        "cem, no diagonal": CEMConfig(InteractionConfig(heads)),
        "cem, no diagonal, T = 3": CEMConfig(InteractionConfig(heads), DescentConfig(steps=3)),
        "cem, shared diagonal": CEMConfig(InteractionConfig(heads, diagonal="shared")),
        "mha": MHAConfig(heads),
    }
    x = jax.device_put(jnp.ones((BATCH, LENGTH, dim)), placed.batch)
    # One document in each row: sites are constants, and nothing of them is sent.
    for name, config in sublayers.items():
        built = config.build(dim, norm_eps=1e-5, dtype="float32", rngs=nnx.Rngs(0))

        def run(built, x):
            with placed.scope():
                return built(x)

        # An argument: a diagonal that is known to be zero would be left out.
        text = jax.jit(run).lower(built, x).compile().as_text()
        kinds = collectives(text)
        assert set(kinds) == {"all-gather"}, kinds
        found[name] = kinds["all-gather"].bytes
    return found


def tiles():
    """Gradients of an attention energy in tiles, each device its own rows, positions and heads."""
    found, base = {}, None
    for name in MESHES:
        placed = layout(name)
        h = jax.device_put(jnp.sin(jnp.arange(BATCH * LENGTH * 32.0)).reshape(BATCH, LENGTH, 32))
        sites = batch(placed).sites

        def loss(layer, h, sites=sites, placed=placed):
            with placed.scope():
                return jnp.sum(jnp.sin(layer(h, sites)))

        slopes = jax.jit(jax.grad(loss))
        parts = str(jax.make_jaxpr(loss)(tiled_layer(), h)).count("shard_map")
        own = {"loss": 1.0, "start": {}, "slopes": host(slopes(tiled_layer(), h))}
        base = base or own
        found[name] = compared(own, base) | {"parts": parts}
    return found


def tiled_layer():
    """Every term that attention can have, all parameters away from zero."""
    energy = InteractionConfig(
        4,
        key_heads=2,
        diagonal="shared",
        relative_bias=9,
        context_score=ContextScoreConfig(4),
        learn_temperature=True,
        backend="blockwise",
    )
    config = CEMConfig(energy, DescentConfig(steps=2))
    built = config.build(32, norm_eps=1e-5, dtype="float32", rngs=nnx.Rngs(0))
    return jax.tree.map(lambda x: x + 0.1 * jnp.cos(jnp.arange(x.size)).reshape(x.shape), built)


def host(tree):
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    commands = (gradients, accumulated, placement, gathered, tiles)
    what = {command.__name__: command for command in commands}[sys.argv[1]]
    print(json.dumps(what(*sys.argv[2:])))
