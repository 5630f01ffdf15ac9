# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # Write your own energy
#
# In this library a layer *is* an energy: write down what a position should minimise, and the
# layer, its training derivative, its parameter count and its FLOPs follow. This notebook writes
# an energy that the library does not have, in about twenty lines, and then certifies it, counts
# it, and trains it beside the one that is shipped.
#
# Numbers in brackets are those of [docs/equations.md](../docs/equations.md).

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import recall
import style
from flax import nnx

from cem_jax import (
    CEMConfig,
    CEMLayer,
    DescentConfig,
    Energy,
    EnergyOf,
    InteractionConfig,
    Rotary,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
    Visible,
    accumulation_dtype,
    fan_in,
    parameter,
)
from cem_jax.evaluation.certificate.report import summary
from cem_jax.evaluation.certificate.verify import jobs, run
from cem_jax.models.cost import count_forward_flops, count_parameters
from cem_jax.training import AdamWConfig, initial_state, make_optimiser, make_step

style.use()

# %% [markdown]
# ## 1. Twenty lines
#
# The attention energy (2) scores a query and a key by their inner product, and the [second
# notebook](02_energy_landscapes.ipynb) showed what that leads to: a dome without a floor. Suppose
# we would rather have a query settle *at* the keys. Score them by their distance instead:
#
# $$\varepsilon(u_i \mid c_{1:i})
#   = -\tau \sum_h \log \sum_{j \le i} \exp\big(-|W_{Q,h}\, u_i - W_{K,h}\, c_j|^2 / 2\tau\big).$$
#
# It is minus the logarithm of a Gaussian kernel density at the query, so one might call it kernel
# attention. An energy has two methods. `condition` computes all that depends on the context
# alone, once for all inner steps; `__call__` returns the energy of each position. There is no
# gradient, no residual, no norm, no loop, no cache to write.


# %%
class KernelAttention(Energy):
    """eps_i = -tau sum_h log sum_{j<=i} exp(-|Wq_h u_i - Wk_h c_j|^2 / 2 tau), tau = sqrt(K)."""

    def __init__(self, dim, *, rngs, heads=4):
        width = dim // heads
        self.tau = width**0.5
        self.wq = parameter(fan_in(rngs, (dim, heads, width), dim), "D H K")
        self.wk = parameter(fan_in(rngs, (dim, heads, width), dim), "D H K")

    def condition(self, c, sites):
        """Keys, and who sees whom."""
        key = jnp.einsum("bsd,dhk->bshk", c, self.wk[...].astype(c.dtype))
        return key, Visible().allowed(sites, sites)

    def __call__(self, u, context):
        """The energy of each position, [B, L]."""
        key, seen = context
        query = jnp.einsum("bld,dhk->blhk", u, self.wq[...].astype(u.dtype))
        apart = jnp.square(query[:, :, None] - key[:, None])
        distance = jnp.sum(apart, axis=-1, dtype=accumulation_dtype(u))
        # Finite where nothing is seen: padding sees nothing at all, and its energy is 0.
        scores = jnp.where(seen[..., None], -distance / (2 * self.tau), -1e30)
        density = jax.nn.logsumexp(scores, axis=2)
        return -self.tau * jnp.sum(jnp.where(seen.any(-1)[..., None], density, 0), axis=-1)


# %% [markdown]
# ## 2. It is a layer
#
# `EnergyOf` makes a config of the class, and `CEMLayer` a layer of it. By hand, the gradient of
# this energy is a *mean shift*: each query moves toward the weighted mean of the keys,
#
# $$-\nabla_{u_i}\varepsilon
#   = \sum_h W_{Q,h}^\top \sum_{j \le i} p_{hij}\,(W_{K,h}\, c_j - W_{Q,h}\, u_i).$$
#
# Nobody needs that formula to use the layer. It serves to check that the layer is what we meant.

# %%
D, TAU, ETA = 32, 8**0.5, 0.15
layer = CEMLayer(D, EnergyOf(KernelAttention), DescentConfig(steps=1), rngs=nnx.Rngs(0))
h = jax.random.normal(jax.random.key(0), (2, 16, D))

c = layer.norm(h)
query, key = (jnp.einsum("bld,dhk->bhlk", c, w[...]) for w in (layer.energy.wq, layer.energy.wk))
apart = key[:, :, None] - query[:, :, :, None]  # [B, H, i, j, K]
past = jnp.tril(jnp.ones((16, 16), bool))
p = jax.nn.softmax(jnp.where(past, -jnp.square(apart).sum(-1) / (2 * TAU), -jnp.inf), axis=-1)
shift = jnp.einsum("bhij,bhijk->bhik", p, apart)
by_hand = h + ETA * jnp.einsum("bhik,dhk->bid", shift, layer.energy.wq[...])

output = jax.jit(layer)(h)
print(f"largest difference from the mean shift: {float(abs(output - by_hand).max()):.1e}")
assert jnp.allclose(output, by_hand, atol=1e-5)

# %% [markdown]
# ## 3. It has a floor
#
# The density of a sum of $n$ kernels is at most $n$, so the energy is at least $-\tau H \log n$.
# Let $u$ itself descend for many steps (norm mode "none"), and it comes to rest; the shipped
# energy never does.

# %%
ONWARD = DescentConfig(norm_mode="none")
flat = InteractionConfig(heads=4, rotary=Rotary(fraction=0.0))
energies = {"kernel attention": EnergyOf(KernelAttention), "shipped attention (2)": flat}
figure, axis = plt.subplots()
for name, energy in energies.items():
    one = CEMLayer(D, energy, ONWARD, rngs=nnx.Rngs(0))
    descent = jax.jit(lambda h, one=one: one.run(h, steps=200, trace=True))(h)
    axis.plot(descent.energies.mean(axis=(1, 2)) - descent.energies[0].mean(), label=name)
axis.set(xlabel="inner step $t$", ylabel="mean energy, minus that at the start", ylim=(-60, 5))
axis.set_title("Kernel attention has a floor; inner products have none")
axis.legend()
plt.show()

# %% [markdown]
# ## 4. It is certified
#
# `cem verify --attention file.py:KernelAttention` runs the following from the command line. A new
# energy has no form written by hand, so its layer is compared with central differences in
# float64, then with itself in float32 (and bfloat16, left out here): outputs, and the derivatives
# in every input and parameter, in all four norm modes, for several $T$ and preconditioners, with
# packed rows and padding. It must also see neither the future nor another document.

# %%
rows = run(jobs(energy=EnergyOf(KernelAttention), precisions=("float64", "float32")))
print(summary(rows))
assert all(row.passed for row in rows)

# %% [markdown]
# ## 5. It is counted
#
# Parameters are counted from the shapes, FLOPs from the program that JAX traces. (Products only:
# the squares of the distances are element-wise work and no product.)


# %%
def model(attention, steps=1):
    """One block around an attention energy, for the task below."""
    sublayer = CEMConfig(attention, DescentConfig(steps=steps))
    return TransformerConfig(recall.VOCABULARY, D, 1, sublayer, SwiGLUConfig(64))


for name, energy in energies.items():
    for steps in (1, 3):
        config = model(energy, steps)
        flops = count_forward_flops(config, batch=1, length=recall.LENGTH) / recall.LENGTH
        total = count_parameters(config).total
        print(f"{name:22s} T = {steps}: {total:,} parameters, {flops:,.0f} FLOPs per token")

# %% [markdown]
# ## 6. It is trained
#
# The toy task is associative recall: a sequence shows eight pairs of a key and a value, drawn
# anew each time, and asks for the value of each key. The answer is in the context and nowhere
# else. (The pairs carry no order, so the shipped energy goes without rotary embedding here, too.)

# %%
example = recall.batch(seed=0)
print("shown: ", example.inputs[0, : recall.KEYS])
print("asked: ", example.inputs[0, recall.KEYS :] - recall.KEYS * recall.VALUES)
print("answer:", example.targets[0, recall.KEYS :])


def train(config, steps=100):
    """The loss of each step, in nats per question."""
    optimiser = make_optimiser(AdamWConfig(learning_rate=1e-2), steps)
    graph, state = initial_state(lambda rngs: Transformer(config, rngs=rngs), optimiser, seed=0)
    step, losses = make_step(graph, optimiser), []
    for number in range(steps):
        state, metrics = step(state, recall.batch(number))
        losses.append(metrics["loss"])
    return np.array(losses)


figure, axis = plt.subplots()
for name, energy in energies.items():
    losses = train(model(energy, steps=2))
    axis.plot(losses, label=f"{name}, $T = 2$")
    print(f"{name:22s} T = 2: {losses[-1]:.4f} nats at the end")
    assert losses[-1] < 0.1
axis.axhline(np.log(recall.VALUES), color=style.GREY, linewidth=1)
axis.annotate(
    "the key is known, its value is guessed", (99, np.log(recall.VALUES)), ha="right", va="bottom"
)
axis.set(xlabel="training step", ylabel="loss (nats per question)")
axis.set_title("The new energy learns recall, as the shipped one does")
axis.legend(loc="upper right")
plt.show()

# %% [markdown]
# One seed of a toy task compares nothing; it shows that twenty lines are enough for an energy to
# train.
#
# Put the class into a file, and the whole command line takes it:
#
#     cem verify --attention kernel.py:KernelAttention
#     cem train --attention kernel.py:KernelAttention
