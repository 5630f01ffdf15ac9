"""Layouts: where each array lives, and sizes that do not fit, without any device of the mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import AbstractMesh, PartitionSpec

from cem_jax import Transformer, TransformerConfig
from cem_jax.models import parameter_axes
from cem_jax.ops.constrain import by_parts, constrain
from cem_jax.sharding import RULES, Layout, MeshShape, Rules
from cem_jax.training import MuonConfig, initial_state, make_optimiser


def layout(**sizes):
    shape = MeshShape(**sizes).sizes
    return Layout(AbstractMesh(tuple(shape.values()), tuple(shape)))


def shapes(config):
    model = nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0)))
    return nnx.to_pure_dict(nnx.state(model, nnx.Param))


TINY = TransformerConfig.tiny("cem", vocab_size=64)


def test_weights_and_activations_have_rules_of_their_own():
    assert RULES.parameter("N D H K") == PartitionSpec(None, ("fsdp",), ("tensor",), None)
    assert RULES.parameter(None) == PartitionSpec()
    assert RULES.activation("B L D") == PartitionSpec(("data", "fsdp"), ("context",), None)
    # Keys are gathered over positions, queries are not.
    assert RULES.activation("B S G K")[1] is None


@pytest.mark.parametrize(
    ("sizes", "devices"),
    [({"fsdp": 4, "tensor": 2}, 4), ({"data": 2, "fsdp": 3}, 6), ({"context": 8}, 1)],
)
def test_rows_are_spread_over_data_and_fsdp(sizes, devices):
    assert layout(**sizes).devices_of_rows == devices


def test_a_parameter_without_names_is_on_every_device():
    shape = {"plain": jax.ShapeDtypeStruct((3, 5), "float32")}
    found = layout(fsdp=4, tensor=2).parameters(shape, {"plain": None})
    assert found["plain"].spec == PartitionSpec()


def test_another_number_of_names_than_axes_is_refused():
    shape = {"w": {"own": jax.ShapeDtypeStruct((4, 8), "float32")}}
    message = r"got 'D' for w/own of shape \(4, 8\), expected a name for each axis"
    with pytest.raises(ValueError, match=message):
        layout(fsdp=4).parameters(shape, {"w": {"own": "D"}})


def test_a_mesh_axis_that_is_named_twice_is_refused_with_both_specs():
    rules = Rules(parameters={"D": ("fsdp",), "F": ("fsdp",)}, activations={})
    with pytest.raises(ValueError, match=r"axes 'D F', which the rules place as .*'fsdp' is there"):
        rules.parameter("D F")


def test_every_parameter_and_its_moments_live_where_the_rules_say():
    placed = layout(fsdp=4, tensor=2)
    axes = parameter_axes(TINY)
    optimiser = make_optimiser(MuonConfig(), 5, axes)
    params = shapes(TINY)
    state = {"params": params, "opt_state": jax.eval_shape(optimiser.init, params)}
    found = placed.state(state, axes)
    wq = found["params"]["blocks"]["attention"]["energy"]["wq"]
    assert wq.spec == PartitionSpec(None, ("fsdp",), ("tensor",), None)
    spread = [leaf for leaf in jax.tree.leaves(found["opt_state"]) if any(leaf.spec)]
    # Of Adam two for each of its arrays, of Muon one: all that is not a scalar is spread.
    arrays = [leaf for leaf in jax.tree.leaves(state["opt_state"]) if leaf.ndim > 1]
    assert len(spread) >= len(arrays) > 20
    moments = [
        (leaf, where)
        for leaf, where in zip(
            jax.tree.leaves(state["opt_state"]), jax.tree.leaves(found["opt_state"]), strict=True
        )
        if leaf.shape == params["blocks"]["attention"]["energy"]["wq"].shape
    ]
    assert moments
    assert all(where.spec == wq.spec for _, where in moments)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"tensor": 3}, r"got tensor=3 for the axis G of .*/wk, which has 4, .*: 1, 2;"),
        ({"tensor": 8}, r"tensor=8 for the axis G of blocks/attention/energy/wk, which has 4"),
        ({"fsdp": 256}, r"fsdp=256 for the axis D of .*, which has 128, .*: 1, 2, 4, .*64, 128"),
    ],
)
def test_sizes_that_do_not_divide_are_refused_and_those_that_do_are_named(sizes, message):
    with pytest.raises(ValueError, match=message):
        layout(**sizes).parameters(shapes(TINY), parameter_axes(TINY))


def test_a_batch_must_divide_over_its_rows_and_positions():
    placed = layout(data=2, fsdp=2, context=4)
    placed.require_batch(8, 64)
    with pytest.raises(ValueError, match="data=2 x fsdp=2 for the axis B of the batch, which has"):
        placed.require_batch(6, 64)
    with pytest.raises(ValueError, match="context=4 for the axis L of the batch, which has 66"):
        placed.require_batch(8, 66)
    placed.require_batch(16, 64, 4)
    message = (
        r"axis B of a micro-batch \(batch 16 / accumulate 8\), which has 2, expected .*: 1, 2;"
    )
    with pytest.raises(ValueError, match=message):
        placed.require_batch(16, 64, 8)


def test_on_one_device_nothing_changes():
    placed = Layout.of()
    x = jnp.arange(6.0).reshape(2, 3)
    with placed.scope():
        np.testing.assert_array_equal(jax.jit(lambda x: constrain(x, "B L"))(x), x)
        program = str(jax.make_jaxpr(by_parts(jnp.sum, ("B L",), "", over="B L"))(x))
    assert "shard_map" not in program


def test_a_state_is_born_where_it_lives():
    place = Layout.of().sharding()
    build = lambda rngs: Transformer(TINY, rngs=rngs)  # noqa: E731 - a name for two calls
    _, state = initial_state(build, optax.adam(0.1), seed=0, sharding=place)
    assert all(leaf.sharding == place for leaf in jax.tree.leaves(state))
    _, other = initial_state(build, optax.adam(0.1), seed=0)
    jax.tree.map(np.testing.assert_array_equal, state, other)
