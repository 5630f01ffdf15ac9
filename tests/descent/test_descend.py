"""The loop itself: what it costs, what it records, and what its derivatives see."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cases import B, D, L
from flax import nnx

from cem_jax import DescentConfig, InteractionConfig, PreconditionerConfig, StepSizeConfig, descend

LOW_RANK = cases.ENERGY["low-rank"].config
PLAIN = optax.scale(-0.1)


def bowl(u):
    return 0.5 * jnp.sum(u**2, -1)


def hidden(name="h", *shape):
    return cases.normal(name, *(shape or (B, L, D)))


def program(energy, **options):
    options = {"steps": 3, "transformation": PLAIN} | options
    return jax.make_jaxpr(lambda x: descend(energy, x, **options))(hidden())


def test_layer_follows_whatever_energy_it_is_given():
    """The energy |u|^2 / 2 shrinks every row by (1 - eta)^T: nothing is written by hand."""
    result = descend(bowl, hidden(), steps=5, transformation=PLAIN)
    np.testing.assert_allclose(result.x, 0.9**5 * hidden(), rtol=1e-5, atol=1e-6)
    assert result.energies is None
    assert result.gradient_norms is None


def test_program_is_one_scan_of_the_stated_length():
    scans = [e for e in program(bowl).jaxpr.eqns if e.primitive.name == "scan"]
    assert [scan.params["length"] for scan in scans] == [3]
    assert len(scans[0].outvars) == 1, "x alone: nothing is stacked"


def test_program_does_not_grow_with_the_number_of_steps():
    assert len(str(program(bowl, steps=2))) == len(str(program(bowl, steps=9)))


def test_trace_holds_the_energies_and_norms_on_the_way():
    result = descend(bowl, hidden(), steps=3, transformation=PLAIN, trace=True)
    for step in range(4):
        x = 0.9**step * hidden()
        np.testing.assert_allclose(result.energies[step], bowl(x), rtol=1e-5)
        if step < 3:
            norm = jnp.linalg.norm(x, axis=-1)
            np.testing.assert_allclose(result.gradient_norms[step], norm, rtol=1e-5)


def test_trace_is_free_when_not_asked_for():
    """The energy's value needs a log-sum-exp that its gradient does not."""

    def logs(**options):
        layer = cases.layer(LOW_RANK)
        return jax.jit(lambda h: layer.run(h, **options)).lower(hidden()).compile().as_text()

    assert logs(trace=True).count("log(") > 0
    assert logs().count("log(") == 0


@pytest.mark.parametrize("unroll", [1, 2, 5])
def test_unrolling_changes_nothing(unroll):
    result = descend(bowl, hidden(), steps=3, transformation=PLAIN, unroll=unroll)
    np.testing.assert_allclose(result.x, 0.9**3 * hidden(), rtol=1e-5, atol=1e-6)


def test_remat_is_in_the_program_and_saves_memory():
    assert "remat" in str(program(bowl, remat="full")) or "checkpoint" in str(
        program(bowl, remat="full")
    )
    assert "remat" not in str(program(bowl))
    assert "checkpoint" not in str(program(bowl))
    h = hidden("wide", 1, 64, D)

    def temporary(remat):
        layer = cases.layer(LOW_RANK, steps=4, remat=remat)
        graph, params = cases.split(layer)
        loss = jax.grad(lambda params: jnp.sum(nnx.merge(graph, params)(h) ** 2))
        return jax.jit(loss).lower(params).compile().memory_analysis().temp_size_in_bytes

    assert temporary("full") < 0.7 * temporary("none")


def test_narrow_start_is_carried_in_float32():
    result = descend(bowl, hidden().astype(jnp.bfloat16), steps=2, transformation=PLAIN)
    assert result.x.dtype == jnp.float32


def test_inner_derivative_takes_the_context_as_constant():
    """As if c were under stop_gradient in it; a looped block would differentiate c as well."""
    layer = cases.layer(InteractionConfig(2), norm_mode="none", steps=1)
    h = hidden()
    energy, eta = layer.energy, layer.step_size(jnp.int32(0))
    sites = cases.packed()

    def total(u, c):
        return jnp.sum(energy(u, energy.condition(c, sites)))

    ours, constant, looped = jax.jit(
        lambda h: (
            layer(h, sites),
            jax.grad(lambda x: total(x, jax.lax.stop_gradient(x)))(h),
            jax.grad(lambda x: total(x, x))(h),
        )
    )(h)
    np.testing.assert_allclose(ours, h - eta * constant, rtol=1e-5, atol=1e-5)
    assert jnp.max(jnp.abs(ours - (h - eta * looped))) > 1e-2


def test_training_derivative_flows_through_the_context():
    layer = cases.layer(InteractionConfig(2), norm_mode="none", steps=2)
    h, weight, sites = hidden(), hidden("weight"), cases.packed()
    energy, eta = layer.energy, layer.step_size(jnp.int32(0))

    def looped(h, c):
        context = energy.condition(c, sites)
        x = h
        for _ in range(2):
            x = x - eta * jax.grad(lambda u: jnp.sum(energy(u, context)))(x)
        return jnp.sum(weight * x)

    def stopped(h):
        return looped(h, jax.lax.stop_gradient(h))

    ours, through, cut = jax.jit(
        lambda h: (
            jax.grad(lambda h: jnp.sum(weight * layer(h, sites)))(h),
            jax.grad(lambda h: looped(h, h))(h),
            jax.grad(stopped)(h),
        )
    )(h)
    np.testing.assert_allclose(ours, through, rtol=1e-4, atol=1e-5)
    assert jnp.max(jnp.abs(ours - cut)) > 1e-2


@pytest.mark.parametrize("mode", ["default", "exact", "once", "none"])
def test_norm_mode_is_what_it_says(mode):
    layer = cases.layer(LOW_RANK, norm_mode=mode)
    h, sites = hidden(), cases.packed()
    norm = (lambda x: x) if layer.norm is None else layer.norm
    c = norm(h)
    context = layer.energy.condition(c, sites)
    eta = layer.step_size(jnp.int32(0))

    def total(u):
        return jnp.sum(layer.energy(u, context))

    x = c if mode == "once" else h
    for _ in range(2):
        if mode == "exact":
            slope = jax.grad(lambda x: total(norm(x)))(x)
        else:
            slope = jax.grad(total)(norm(x) if mode == "default" else x)
        x = x - eta * slope
    expected = h + x - c if mode == "once" else x
    np.testing.assert_allclose(layer(h, sites), expected, rtol=1e-5, atol=1e-5)


def test_learned_step_sizes_are_used_one_by_one():
    layer = cases.layer(LOW_RANK, step_size=StepSizeConfig(0.1, "step"))
    h = hidden()
    whole, first = layer(h), layer(h, steps=1)
    raw = layer.step_size.raw[...]
    layer.step_size.raw[...] = raw.at[1].set(-jnp.inf)
    np.testing.assert_allclose(layer(h), first, rtol=1e-6, atol=1e-6)
    layer.step_size.raw[...] = raw.at[0].set(-jnp.inf)
    assert jnp.max(jnp.abs(layer(h) - whole)) > 1e-3
    assert jnp.max(jnp.abs(layer(h) - first)) > 1e-3


def test_order_is_rule_then_preconditioner_then_step_size():
    layer = cases.layer(
        LOW_RANK,
        steps=1,
        transformation=optax.clip_by_global_norm(0.05),
        preconditioner=PreconditionerConfig(rank=2),
    )
    h, sites = hidden(), cases.packed()
    context = layer.energy.condition(layer.norm(h), sites)
    g = jax.grad(lambda u: jnp.sum(layer.energy(u, context)))(layer.norm(h))
    norm = jnp.linalg.norm(g, axis=-1, keepdims=True)
    clipped = jnp.where(norm < 0.05, g, 0.05 * g / jnp.where(norm > 0, norm, 1.0))
    step = layer.step_size(jnp.int32(0)) * clipped @ layer.preconditioner.matrix()
    np.testing.assert_allclose(layer(h, sites), h - step, rtol=1e-5, atol=1e-6)


def test_momentum_is_the_heavy_ball_before_the_preconditioner():
    """m <- g + beta m;  u <- u - eta P m, written out."""
    layer = cases.layer(
        LOW_RANK,
        steps=3,
        norm_mode="none",
        momentum=0.6,
        preconditioner=PreconditionerConfig(rank=2),
    )
    h, sites = hidden(), cases.packed()
    context = layer.energy.condition(h, sites)
    eta, matrix = layer.step_size(jnp.int32(0)), layer.preconditioner.matrix()
    x, m = h, jnp.zeros_like(h)
    for _ in range(3):
        m = jax.grad(lambda u: jnp.sum(layer.energy(u, context)))(x) + 0.6 * m
        x = x - eta * m @ matrix
    np.testing.assert_allclose(layer(h, sites), x, rtol=1e-5, atol=1e-5)


def test_defaults_are_one_plain_learned_step():
    config = DescentConfig()
    assert (config.steps, config.norm_mode, config.preconditioner) == (1, "default", None)
    assert config.momentum == 0
