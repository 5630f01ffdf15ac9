"""The least eigenvalue of P, and the bounds on what a step wins."""

import cases
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cem_jax import (
    CEMConfig,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    PreconditionerConfig,
    Transformer,
    TransformerConfig,
)
from cem_jax.descent import Preconditioner
from cem_jax.evaluation.certificate.compiling import compiled
from cem_jax.evaluation.certificate.jaxprs import equations
from cem_jax.evaluation.diagnostics import (
    concave_decrease,
    curved_decrease,
    least_eigenvalue,
    least_eigenvalues,
)

ROUNDING = 1e-12


def _of(bound, layer, h, sites=None):
    """Found and promised, in one program that compiles fast."""
    return compiled(lambda h: bound(layer, h, sites), True)(h)


def test_least_eigenvalue_is_that_of_the_dense_matrix():
    matrix = cases.randomize(Preconditioner(6, PreconditionerConfig(rank=2), rngs=nnx.Rngs(0)))
    d, u, v = (np.asarray(p[...]) for p in (matrix.diagonal, matrix.left, matrix.right))
    dense = np.diag(np.log1p(np.exp(d))) + u @ v.T + v @ u.T
    np.testing.assert_allclose(least_eigenvalue(matrix), np.linalg.eigvalsh(dense)[0], rtol=1e-5)


def _three_layers():
    matrix = PreconditionerConfig(rank=2)
    mlp = CEMConfig(ElementwiseConfig(4), DescentConfig(preconditioner=matrix))
    config = TransformerConfig(8, 8, 3, CEMConfig(ElementwiseConfig(4)), mlp)
    return cases.randomize(nnx.jit(lambda: Transformer(config, rngs=nnx.Rngs(0)))())


def test_one_matrix_is_decomposed_at_a_time():
    """Batches of 512 x 512 on four CPU devices waited for each other for ever (jaxlib 0.10.2)."""
    found = equations(lambda: least_eigenvalues(_three_layers()))
    shapes = [e.invars[0].aval.shape for e in found if e.primitive.name == "eigh"]
    assert shapes == [(8, 8)]


def test_least_eigenvalues_of_a_model_are_those_of_its_layers():
    model = _three_layers()
    found = least_eigenvalues(model)
    assert found.keys() == {"mlp"}
    stack = nnx.to_pure_dict(nnx.state(model.blocks.mlp.preconditioner))
    for index in range(3):
        d, u, v = (np.asarray(stack[name][index]) for name in ("diagonal", "left", "right"))
        dense = np.diag(np.log1p(np.exp(d))) + u @ v.T + v @ u.T
        least = np.linalg.eigvalsh(dense)[0]
        np.testing.assert_allclose(found["mlp"][index], least, rtol=1e-4)


@pytest.mark.parametrize("mode", ["once", "none"])
@pytest.mark.parametrize("matrix", [None, PreconditionerConfig(rank=2)])
def test_attention_wins_what_concavity_promises(x64, mode, matrix):
    options = {"norm_mode": mode, "preconditioner": matrix, "dtype": "float64"}
    layer = cases.layer(InteractionConfig(2, diagonal="head"), **options)
    found, promised = _of(concave_decrease, layer, cases.normal(0, 2, 5, cases.D), cases.packed())
    assert found.shape == (2, 2, 5)
    assert np.all(found >= promised - ROUNDING)
    if matrix is None:
        assert np.all(promised >= 0)


@pytest.mark.parametrize("form", ["nonlinear", "quadratic"])
def test_mlp_wins_what_its_curvature_promises_and_not_what_concavity_would(x64, form):
    layer = cases.layer(ElementwiseConfig(12, form), norm_mode="none", dtype="float64")
    h = cases.normal(0, 2, 5, cases.D)
    found, promised = _of(curved_decrease, layer, h)
    assert np.all(found >= promised - ROUNDING)
    if form == "nonlinear":
        # The gate has either sign, so the energy is not concave: the stronger bound must fail.
        found, promised = _of(concave_decrease, layer, h)
        assert np.any(found < promised - ROUNDING)


def test_the_steps_are_the_layer_s_own(x64):
    layer = cases.layer(InteractionConfig(2), norm_mode="none", dtype="float64")
    h = cases.normal(0, 2, 5, cases.D)
    energies = compiled(lambda h: layer.run(h, trace=True).energies, True)(h)
    found, _ = _of(concave_decrease, layer, h)
    np.testing.assert_allclose(found, -jnp.diff(energies, axis=0))


def test_other_norm_modes_are_refused(hook_off):
    layer = cases.layer(InteractionConfig(2), norm_mode="default")
    with pytest.raises(ValueError, match=r"got 'default', expected 'once' or 'none'"):
        concave_decrease(layer, cases.normal(0, 2, 5, cases.D))
