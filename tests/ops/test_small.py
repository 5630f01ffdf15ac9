"""Norms, visibility, cross-entropy, and the seam to a mesh."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax import Sites, Visible, parameter
from cem_jax.ops.constrain import by_parts, constrain, placing
from cem_jax.ops.norms import rms_norm


def test_rms_norm_is_over_the_last_axis_alone(x64):
    x, gain = cases.normal("x", 2, 3, 8), cases.normal("gain", 8)
    expected = np.zeros(x.shape)
    for b, i in np.ndindex(2, 3):
        row = np.asarray(x[b, i])
        expected[b, i] = np.asarray(gain) * row / np.sqrt(np.mean(row**2) + 1e-5)
    np.testing.assert_allclose(rms_norm(x, gain, 1e-5), expected, rtol=1e-10)
    assert jnp.isfinite(jax.grad(lambda x: jnp.sum(rms_norm(x, gain, 1e-5)))(0 * x)).all()


def test_rms_norm_of_bfloat16_has_float32_statistics():
    x = (1000 * cases.normal("x", 1, 2, 512)).astype(jnp.bfloat16)
    value = rms_norm(x, jnp.ones(512), 1e-5)
    assert value.dtype == jnp.bfloat16
    wide = rms_norm(x.astype(jnp.float32), jnp.ones(512), 1e-5)
    np.testing.assert_array_equal(value, wide.astype(jnp.bfloat16))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 1, 2])
def test_visibility_equals_its_definition(causal, window):
    sites = cases.packed()
    mask = Visible(causal, window).allowed(sites, sites)
    position, segment = map(np.asarray, sites)
    for b, i, j in np.ndindex(*mask.shape):
        distance = position[b, i] - position[b, j]
        expected = segment[b, i] == segment[b, j] != 0
        expected &= distance >= 0 or not causal
        expected &= window is None or abs(distance) < window
        assert mask[b, i, j] == expected


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int8"])
def test_visibility_does_not_depend_on_the_dtype_of_positions(dtype):
    dense = Sites.dense(1, 5)
    other = dense._replace(position=dense.position.astype(dtype))
    for rule in (Visible(), Visible(window=2)):
        assert jnp.array_equal(rule.allowed(other, other), rule.allowed(dense, dense))


def test_dense_sites_are_one_document_a_row():
    sites = Sites.dense(2, 3)
    np.testing.assert_array_equal(sites.position, [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(sites.segment, [[1, 1, 1]] * 2)


def test_constrain_is_the_identity_until_rules_are_installed():
    x = jnp.ones((2, 3))
    assert constrain(x, "B L") is x

    class Times:
        def __init__(self, factor):
            self.factor, self.seen = factor, []

        def constrain(self, x, axes):
            self.seen.append(axes)
            return self.factor * x

        def by_parts(self, function, inputs, outputs, over):
            return lambda x: self.factor * function(x)

    outer = Times(2)
    with placing(outer):
        with placing(Times(3)):
            assert constrain(x, "B L")[0, 0] == 3
        assert constrain(x, "B L")[0, 0] == 2
        assert by_parts(jnp.sum, ("B L",), "", over="B L")(x) == 12
    assert outer.seen == ["B L"]
    assert constrain(x, "B L") is x
    assert by_parts(jnp.sum, ("B L",), "", over="B L")(x) == 6


def test_parameter_names_every_axis(hook_off):
    assert parameter(jnp.ones((2, 3)), "D F").get_metadata()["axes"] == "D F"
    with pytest.raises(ValueError, match="axes: got 'D' for shape"):
        parameter(jnp.ones((2, 3)), "D")
