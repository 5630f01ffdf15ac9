import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax.training import OptimiserConfig, decayed, make_optimiser, make_schedule


@pytest.mark.parametrize("warmup", [1, 2, 10])
def test_the_corners_of_the_schedule(warmup):
    config = OptimiserConfig(learning_rate=0.5, warmup=warmup, final_fraction=0.1)
    rate = make_schedule(config, 40)
    np.testing.assert_allclose(rate(0), 0.5 / (warmup + 1), rtol=1e-6)
    np.testing.assert_allclose(rate(warmup - 1), 0.5 * warmup / (warmup + 1), rtol=1e-6)
    np.testing.assert_allclose(rate(warmup), 0.5, rtol=1e-6)
    np.testing.assert_allclose(rate(warmup + (40 - warmup) / 2), 0.5 * 1.1 / 2, rtol=1e-6)
    np.testing.assert_allclose(rate(40), 0.05, rtol=1e-6)
    rates = [float(rate(step)) for step in range(41)]
    assert rates == [*sorted(rates[: warmup + 1]), *sorted(rates[warmup + 1 :], reverse=True)]


def test_a_schedule_without_warm_up_starts_at_its_peak():
    rate = make_schedule(OptimiserConfig(learning_rate=0.5, warmup=0), 40)
    np.testing.assert_allclose(rate(0), 0.5, rtol=1e-6)
    assert rate(1) < rate(0)


def test_a_warm_up_without_end_is_refused():
    with pytest.raises(ValueError, match="warmup: got 40 of 40 steps"):
        make_schedule(OptimiserConfig(warmup=40), 40)


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
    config = OptimiserConfig(learning_rate=0.1, warmup=0, weight_decay=0.5)
    optimiser = make_optimiser(config, 10)
    params = {"readout": jnp.ones((2, 2)), "norm": {"gain": jnp.ones(2)}}
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimiser.update(zeros, optimiser.init(params), params)
    np.testing.assert_allclose(updates["readout"], -0.05, rtol=1e-6)
    np.testing.assert_array_equal(updates["norm"]["gain"], 0.0)


def test_the_gradient_is_clipped_as_a_whole():
    config = OptimiserConfig(warmup=0, clip=1.0)
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
