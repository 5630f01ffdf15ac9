import jax
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from cem_jax import Transformer, TransformerConfig
from cem_jax.sharding import data_mesh, replicated, rows
from cem_jax.training import MuonConfig, initial_state, make_optimiser


def test_a_mesh_of_one_device_in_auto_mode():
    mesh = data_mesh()
    assert mesh.axis_names == ("data",)
    assert mesh.axis_types == (AxisType.Auto,)
    assert mesh.size == 1
    with pytest.raises(ValueError, match="devices: got none"):
        data_mesh([])


def test_a_state_is_born_where_it_lives():
    sharding = replicated(data_mesh())
    model = TransformerConfig.tiny("llama", vocab_size=64)
    optimiser = make_optimiser(MuonConfig(), 5)
    _, state = initial_state(
        lambda rngs: Transformer(model, rngs=rngs), optimiser, seed=0, sharding=sharding
    )
    assert all(leaf.sharding == sharding for leaf in jax.tree.leaves(state))
    _, other = initial_state(lambda rngs: Transformer(model, rngs=rngs), optimiser, seed=0)
    jax.tree.map(np.testing.assert_array_equal, state, other)


def test_a_batch_is_spread_by_its_rows():
    placed = jax.device_put(np.ones((4, 3)), rows(data_mesh()))
    assert placed.sharding.spec == PartitionSpec("data")
