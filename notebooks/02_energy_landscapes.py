# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # Energy landscapes
#
# What do the surfaces look like that a CEM layer descends? In two dimensions one can see them.
# This notebook draws the attention energy and the MLP energy, walks down both with the library's
# own `descend`, and looks at what the number of steps $T$, the preconditioner $P$ and the step
# size $\eta$ do.
#
# Numbers in brackets are those of [docs/equations.md](../docs/equations.md).

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import style
from flax import nnx
from landscape import everywhere, paths, surface, walk

from cem_jax import (
    CEMMLP,
    DescentConfig,
    ElementwiseConfig,
    ElementwiseEnergy,
    InteractionConfig,
    InteractionEnergy,
    PreconditionerConfig,
    Rotary,
    Sites,
    descend,
)
from cem_jax.descent import Preconditioner
from cem_jax.evaluation.diagnostics import curved_decrease, least_eigenvalue

style.use()
ENERGY = r"energy $\varepsilon$"

# %% [markdown]
# ## 1. The attention energy, seen from one position
#
# One head in the plane, without rotation, with $W_Q = W_K = I$ and temperature $\tau = 1$: the
# energy (2) of the last position is
#
# $$\varepsilon(u) = -\log \sum_j \exp(u^\top c_j).$$
#
# The context $c_j$ (five points here) is fixed. `at_last` puts a point of the plane at the last
# position of the library's `InteractionEnergy` and returns that position's energy.

# %%
C = jnp.array([[1.6, 0.5], [0.7, 1.6], [-1.3, 0.9], [-0.6, -1.5], [0.3, -0.2]])
S = len(C)

plain = InteractionConfig(heads=1, head_dim=2, rotary=Rotary(fraction=0.0), temperature=1.0)
attention = InteractionEnergy(2, plain, rngs=nnx.Rngs(0))
attention.wq[...] = jnp.eye(2)[:, None]
attention.wk[...] = jnp.eye(2)[:, None]
context = attention.condition(C[None], Sites.dense(1, S))


def at_last(point):
    """The energy of the last position, which sees the whole context, at a point of the plane."""
    return attention(jnp.zeros((1, S, 2)).at[0, -1].set(point), context)[0, -1]


point = jnp.array([0.4, -0.3])
by_hand = -jax.nn.logsumexp(C @ point)
print(f"the library {at_last(point):.6f}, by hand {by_hand:.6f}")
assert jnp.allclose(at_last(point), by_hand, atol=1e-6)

# %% [markdown]
# Minus the gradient is a softmax-weighted mean of the context. So each point is pulled toward the
# keys that it already agrees with, and the further it goes the more it agrees with them.


# %%
starts = [[0.2, 0.4], [-0.3, 0.2], [-0.2, -0.4], [0.5, -0.4]]
figure, axis = plt.subplots(figsize=(7.2, 5.6))
figure.colorbar(surface(axis, at_last, C), label=ENERGY, ticks=range(-7, 0))
for path in paths(at_last, starts, 8, optax.scale(-0.25)).transpose(1, 0, 2):
    walk(axis, path, color="white")
axis.legend(loc="lower right", labelcolor="white")
axis.set_title("Attention pulls a point toward the keys it agrees with")
plt.show()

# %% [markdown]
# ## 2. Attention has no floor
#
# The log-sum-exp is convex, so with keys fixed the energy (2) is *concave* in $u$: a dome. And
# since $\varepsilon(u) \le -\max_j u^\top c_j$, it is unbounded below. There is no minimum to
# arrive at. Every plain step, however long, lowers the energy, so "the energy falls" proves
# nothing about attention.

# %%
STEPS, ETA = 60, 0.25
x0 = jnp.asarray(starts)[:, None]
fall = descend(everywhere(at_last), x0, steps=STEPS, transformation=optax.scale(-ETA), trace=True)
energies, norms = np.asarray(fall.energies[..., 0]), np.asarray(fall.gradient_norms[..., 0])
assert (np.diff(energies, axis=0) < 0).all()

figure, axis = plt.subplots()
for number, energy in enumerate(energies.T):
    axis.plot(energy, label=f"start {number + 1}")
axis.set(xlabel="step $t$", ylabel=ENERGY)
axis.set_title("With keys fixed, the energy falls without end")
axis.legend()
plt.show()

# Far out one key has nearly all the weight: the gradient is that key, and the energy falls by
# eta |c_j|^2 in each step. Where the slope changes, the softmax has turned to another key.
lengths = np.linalg.norm(C, axis=1)
for number in range(len(starts)):
    early, last = (int(np.argmin(abs(lengths - norms[step, number]))) for step in (20, -1))
    won = energies[-2, number] - energies[-1, number]
    print(
        f"start {number + 1} follows c_{early + 1} at step 20, c_{last + 1} at the end, "
        f"where a step wins {won:.3f}; eta |c|^2 is {ETA * lengths[last] ** 2:.3f}"
    )

# %% [markdown]
# What keeps a layer from running away is that it takes few steps, and that it looks at $u =
# \operatorname{norm}(x)$ and not at $x$: the RMS norm holds $u$ on the circle of radius $\sqrt D$
# (on a sphere, in general). *There* the energy has a minimum.

# %%
angles = np.linspace(-np.pi, np.pi, 400)
circle = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
around = np.asarray(everywhere(at_last)(jnp.asarray(circle)[:, None])[:, 0])

figure, axis = plt.subplots()
axis.plot(np.degrees(angles), around)
low = around.argmin()
axis.plot(np.degrees(angles[low]), around[low], "o", color=style.VERMILION, markersize=10)
for number, (x, y) in enumerate(np.asarray(C)):
    label = "direction of a key" if number == 0 else None
    axis.axvline(np.degrees(np.arctan2(y, x)), color=style.ORANGE, linestyle=":", label=label)
axis.set(xlabel="angle of $u$ on the circle $|u| = \\sqrt{2}$ (degrees)", ylabel=ENERGY)
axis.set(xticks=range(-180, 181, 60), ylim=(None, -1.8))
axis.set_title("On the circle of the norm, the energy has a floor")
axis.legend(loc="upper right", frameon=True, framealpha=1, edgecolor="none")
plt.show()

# %% [markdown]
# ## 3. What $T$ does
#
# One step walks in a straight line, however the surface bends. Split into $T$ steps of $\eta =
# 3/T$ (the same $\eta T$), the walk asks again after each step where down is: the softmax's
# weights are recomputed, and the path bends toward the key that it comes nearer to. For large $T$
# it is the gradient flow.

# %%
start = [[0.5, -0.7]]
figure, axis = plt.subplots(figsize=(7.2, 5.6))
figure.colorbar(surface(axis, at_last, C), label=ENERGY, ticks=range(-7, 0))
colours = {1: style.SKY, 2: style.PURPLE, 4: style.VERMILION, 64: "white"}
ends = {}
for steps, colour in colours.items():
    path = paths(at_last, start, steps, optax.scale(-3.0 / steps))[:, 0]
    ends[steps] = float(at_last(jnp.asarray(path[-1])))
    walk(axis, path, color=colour, label=f"$T = {steps}$", markersize=7 if steps < 64 else 0)
axis.set(xlim=(-1, 2.5), ylim=(-2.9, 0.6))
axis.legend(loc="lower left", labelcolor="white")
axis.set_title("More, smaller steps follow the surface")
plt.show()
for steps, end in ends.items():
    print(f"T = {steps:2d}, eta = {3 / steps:.4f}: energy {end:.3f} at the end")

# %% [markdown]
# ## 4. What $P$ does
#
# The preconditioner (8) turns and stretches each step, $-\eta P g$ with $g = \nabla\varepsilon$.
# It is $P = \operatorname{diag}(\operatorname{softplus}(d)) + UV^\top + VU^\top$: symmetric, but
# *not* positive definite by construction. Concavity promises of any step that
#
# $$\varepsilon(u) - \varepsilon(u - \eta P g) \ge \eta\, g^\top P g ,$$
#
# which is worth something only if $P$ is positive definite. If its least eigenvalue is negative,
# there are gradients for which the step goes uphill. (It is a theorem where $u$ itself descends,
# as here. The [sixth notebook](06_what_each_inner_step_does.ipynb) measures both sides in a
# trained layer.)


# %%
def preconditioner(amount):
    """P = I + 2 amount a a^T: eigenvalues 1 + 2 amount along a, and 1 across it."""
    along = jnp.array([[0.96], [0.28]])
    result = Preconditioner(2, PreconditionerConfig(rank=1), rngs=nnx.Rngs(0))
    result.left[...], result.right[...] = along, amount * along
    return result


kinds = {
    "identity": preconditioner(0.0),
    "definite": preconditioner(-0.3),
    "indefinite": preconditioner(-0.8),
}
start = [[1.6, 0.9]]

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), width_ratios=(1.1, 1))
surface(left, at_last, C)
for (name, p), colour in zip(kinds.items(), (style.BLACK, style.SKY, style.VERMILION), strict=True):
    least = float(least_eigenvalue(p))
    down = optax.chain(
        optax.stateless(lambda g, _, p=p: everywhere(p)(g[None, None])[0, 0]), optax.scale(-0.25)
    )
    path = paths(at_last, start, 8, down)[:, 0]
    walk(left, path, color=colour)
    heights = [float(at_last(jnp.asarray(point))) for point in path]
    right.plot(heights, "o-", color=colour, label=f"{name}, least eigenvalue {least:.2f}")
right.set(xlabel="step $t$", ylabel=ENERGY)
right.legend()
figure.suptitle("Where $P$ has a negative eigenvalue, a step can go uphill", x=0.01, ha="left")
plt.show()

# %% [markdown]
# ## 5. The MLP energy, and how long a step may be
#
# The energy of a gated MLP (6), $\varepsilon = -\sum_f (W_g c)_f\, \Phi((W_u u)_f)$, is not
# concave: the sign of each gate $(W_g c)_f$ decides whether its term is a valley or a ridge. Here
# are four features: three valleys (negative gates) and a gentle ridge (a positive one).

# %%
START = jnp.array([1.9, 1.3])
GATES = jnp.array([-1.0, -1.0, -0.8, 0.5])
UP = jnp.array([[1.0, -1.0, -0.4, 0.3], [0.4, -0.4, 1.2, -1.0]])
GATE = jnp.outer(START, GATES) / (START @ START)  # so that START @ GATE = GATES


def planar(energy):
    """The same energy with these weights."""
    energy.gate[...], energy.up[...] = GATE, UP
    return energy


mlp = planar(ElementwiseEnergy(2, ElementwiseConfig(features=4), rngs=nnx.Rngs(0)))
gate = mlp.condition(START[None, None], Sites.dense(1, 1))


def of_mlp(point):
    """The MLP's energy at a point of the plane, its context being the start."""
    return mlp(point[None, None], gate)[0, 0]


figure, axis = plt.subplots(figsize=(7.2, 5.6))
figure.colorbar(surface(axis, of_mlp), label=ENERGY)
for eta, colour in {2.0: style.VERMILION, 0.8: style.ORANGE, 0.2: "white"}.items():
    path = paths(of_mlp, [START], 3, optax.scale(-eta))[:, 0]
    walk(axis, path, color=colour, label=rf"$\eta = {eta}$")
axis.legend(loc="lower right", labelcolor="white")
axis.set_title("An MLP's energy has a valley; long steps leap across it")
plt.show()

# %% [markdown]
# For a smooth energy the step has a bound. With $L_c$ the largest curvature along the step,
#
# $$\varepsilon(u) - \varepsilon(u - \eta g) \;\ge\; \eta\, |g|^2 \,\big(1 - \eta L_c / 2\big),$$
#
# so the energy surely falls while $\eta < 2 / L_c$. `curved_decrease` measures both sides for a
# layer's steps; we turn its learned $\eta$ by hand.

# %%
layer = CEMMLP(2, ElementwiseConfig(features=4), DescentConfig(norm_mode="none"), rngs=nnx.Rngs(0))
planar(layer.energy)
graph, parameters = nnx.split(layer)


def one_step(eta):
    """The decrease of one step of this size, and its bound."""
    layer = nnx.merge(graph, parameters)
    layer.step_size.raw = nnx.Param(jnp.log(eta))
    return curved_decrease(layer, START[None, None])


etas = np.linspace(0.02, 2.2, 60)
found, promised = (x[:, 0, 0, 0] for x in jax.jit(jax.vmap(one_step))(etas))
assert bool((found >= promised - 1e-4).all())

figure, axis = plt.subplots()
axis.axhline(0, color=style.GREY, linewidth=1)
axis.plot(etas, found, label="what the step wins")
axis.plot(etas, promised, "--", label=r"what is promised, $\eta\,|g|^2 (1 - \eta L_c/2)$")
axis.set(xlabel=r"step size $\eta$", ylabel="decrease of the energy in one step")
axis.set_title("A step wins what is promised; too long a step climbs")
axis.legend()
plt.show()

# %% [markdown]
# Three facts to take along:
#
# - attention's energy is a dome without a floor; its update is bounded by the norm and by $T$,
#   not by a minimum;
# - $P$ may turn a step uphill; its least eigenvalue, which `cem train --model cem` reports, says
#   whether it can;
# - the MLP's energy has valleys, and its step size has a limit, $2/L_c$.
