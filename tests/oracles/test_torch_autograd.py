"""The energies written in torch: its autograd and ours agree in float64.

Written with other operations than ours: torch's complex rotation, matrices A_h built whole.
"""

import math

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from cases import B, D, L
from flax import nnx

from cem_jax import ElementwiseConfig, InteractionConfig


def tensor(value):
    return torch.tensor(np.asarray(value), dtype=torch.float64)


def turned(x, position, base):
    """Every head's columns (k, k + K/2) as one complex number, turned."""
    half = x.shape[-1] // 2
    frequency = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = position[..., None, None] * frequency
    number = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
        torch.ones_like(angle), angle
    )
    return torch.cat([number.real, number.imag], -1)


def interaction(p, u, c, sites, config):
    position, segment = (torch.tensor(np.asarray(s)) for s in sites)
    groups = config.heads // p["wk"].shape[1]
    query = torch.einsum("bld,dhk->blhk", u, p["wq"])
    key = torch.einsum("bsd,dgk->bsgk", c, p["wk"]).repeat_interleave(groups, dim=2)
    if config.rotary.fraction:
        query, key = (turned(x, position, config.rotary.base) for x in (query, key))
    score = torch.einsum("blhk,bshk->bhls", query, key)
    if "d" in p:
        d = p["d"].expand(config.heads, D)
        score = score + torch.einsum("bld,hd,bsd->bhls", u, d, c)
    allowed = (segment[:, :, None] == segment[:, None]) & (segment != 0)[:, :, None]
    allowed &= position[:, :, None] >= position[:, None]
    tau = math.sqrt(p["wq"].shape[-1])
    logits = (score / tau).masked_fill(~allowed[:, None], -1e300)
    lse = torch.logsumexp(logits, -1) * allowed.any(-1)[:, None]
    return -tau * lse.sum(1)


def quadratic(p, u, c, sites, config):
    phi = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu}[config.activation]
    return -0.5 * (phi(c @ p["gate"]) * (u @ p["up"]) ** 2).sum(-1)


CASES = {
    "low-rank": (cases.ENERGY["low-rank"].config, interaction),
    "rotary": (InteractionConfig(2), interaction),
    "grouped": (InteractionConfig(4, key_heads=2), interaction),
    "diagonal-head": (InteractionConfig(2, diagonal="head"), interaction),
    "diagonal-shared": (InteractionConfig(2, diagonal="shared"), interaction),
    "quadratic-silu": (ElementwiseConfig(12, "quadratic"), quadratic),
    "quadratic-gelu": (ElementwiseConfig(12, "quadratic", "gelu"), quadratic),
}


@pytest.mark.parametrize("name", CASES)
def test_autograd_of_the_energy_agrees(name, x64):
    config, by_torch = CASES[name]
    energy = cases.randomize(config.build(D, rngs=nnx.Rngs(3)))
    graph, params = cases.split(energy)
    u, c = (cases.normal(seed, B, L, D) for seed in ("u", "c"))
    sites = cases.packed()

    def total(params, u, c):
        module = nnx.merge(graph, params)
        return jnp.sum(module(u, module.condition(c, sites)))

    value, slopes = jax.value_and_grad(total, (0, 1, 2))(params, u, c)
    theirs = {name: tensor(leaf).requires_grad_() for name, leaf in params.items()}
    variables = [tensor(x).requires_grad_() for x in (u, c)]
    result = by_torch(theirs, *variables, sites, config).sum()
    result.backward()
    np.testing.assert_allclose(value, result.item(), rtol=1e-10)
    ours = jax.tree.leaves(slopes[0]) + list(slopes[1:])
    for mine, other in zip(ours, [*(theirs[k] for k in sorted(theirs)), *variables], strict=True):
        np.testing.assert_allclose(mine, other.grad, rtol=1e-10, atol=1e-10)
