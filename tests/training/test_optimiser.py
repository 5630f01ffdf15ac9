import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from cem_jax.training import AdamWConfig, ScheduleConfig, decayed, make_optimiser


def test_only_matrices_of_weights_decay(tiny):
    decay = jax.tree_util.tree_leaves_with_path(decayed(tiny.state()["params"]))
    names = {"/".join(key.key for key in path) for path, holds in decay if holds}
    assert names == {
        "embedding",
        "blocks/attention/energy/wq",
        "blocks/attention/energy/wk",
        "blocks/mlp/energy/gate",
        "blocks/mlp/energy/up",
    }
    spared = {"/".join(key.key for key in path) for path, holds in decay if not holds}
    assert {
        "norm/gain",
        "blocks/attention/energy/d",
        "blocks/attention/energy/bias/table",
        "blocks/attention/norm/gain",
        "blocks/attention/preconditioner/left",
        "blocks/mlp/step_size/raw",
    } <= spared


def test_names_and_axes_of_other_models():
    blocks = {
        "energy": {
            "d": jnp.ones((2, 4, 8)),
            "log_temperature": jnp.ones(2),
            "score": {"wq": jnp.ones((2, 8, 4, 2))},
            "of_a_user": {"vector": jnp.ones((2, 8)), "matrix": jnp.ones((2, 8, 8))},
        }
    }
    marked = decayed({"blocks": blocks, "readout": jnp.ones((9, 8)), "free": jnp.ones(3)})
    assert marked == {
        "blocks": {
            "energy": {
                "d": False,
                "log_temperature": False,
                "score": {"wq": True},
                "of_a_user": {"vector": False, "matrix": True},
            }
        },
        "readout": True,
        "free": False,
    }


def test_with_no_gradient_only_what_decays_moves():
    config = AdamWConfig(learning_rate=0.1, weight_decay=0.5, schedule=ScheduleConfig(warmup=0.0))
    optimiser = make_optimiser(config, 10)
    params = {"readout": jnp.ones((2, 2)), "norm": {"gain": jnp.ones(2)}}
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimiser.update(zeros, optimiser.init(params), params)
    np.testing.assert_allclose(updates["readout"], -0.05, rtol=1e-6)
    np.testing.assert_array_equal(updates["norm"]["gain"], 0.0)


def test_the_gradient_is_clipped_as_a_whole():
    config = AdamWConfig(schedule=ScheduleConfig(warmup=0.0))
    params = {"a": jnp.ones(1), "b": jnp.ones(1)}
    moments = []
    for clip in (1.0, 1e9):
        optimiser = make_optimiser(dataclasses.replace(config, clip=clip), 10)
        gradient = {"a": jnp.array([3.0]), "b": jnp.array([4.0])}
        _, state = optimiser.update(gradient, optimiser.init(params), params)
        moments.append(state[1][0].mu)
    # (3, 4) has norm 5.
    np.testing.assert_allclose(moments[0]["a"] * 5, moments[1]["a"], rtol=1e-6)
    np.testing.assert_allclose(moments[0]["b"] * 5, moments[1]["b"], rtol=1e-6)
