# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # What each inner step does
#
# A CEM layer with $T = 3$ takes three gradient steps with the same weights. What does the second
# step add to the first? This notebook trains a tiny model whose attention takes three
# preconditioned steps, stops it after each, and looks: at the answers, the energy, the length of
# the updates, the attention weights, and the eigenvalues of $P$.
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
    DescentConfig,
    InteractionConfig,
    PreconditionerConfig,
    Rotary,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
)
from cem_jax.evaluation.diagnostics import concave_decrease, least_eigenvalue
from cem_jax.ops.attention_terms import masked_logits
from cem_jax.training import AdamWConfig, initial_state, make_optimiser, make_step

style.use()

# %% [markdown]
# ## 1. A model whose attention descends three steps
#
# The task is associative recall, as in the [fifth notebook](05_your_own_energy.ipynb): eight
# pairs of a key and a value, then a question about each key. One block; attention takes three
# steps with a learned step size (9) and a preconditioner of rank 4, (8).
#
# We use the norm mode "once": the input is normed once, and then $u$ itself descends, (1). It is
# the setting in which statements about the energy are theorems. (The default mode takes the
# gradient at $\operatorname{norm}(x^{(t)})$ and moves $x$.)

# %%
T = 3
descent = DescentConfig(steps=T, norm_mode="once", preconditioner=PreconditionerConfig(rank=4))
energy = InteractionConfig(heads=4, rotary=Rotary(fraction=0.0))
config = TransformerConfig(recall.VOCABULARY, 32, 1, CEMConfig(energy, descent), SwiGLUConfig(64))

STEPS = 200
optimiser = make_optimiser(AdamWConfig(learning_rate=1e-2), STEPS)
graph, state = initial_state(lambda rngs: Transformer(config, rngs=rngs), optimiser, seed=0)
step = make_step(graph, optimiser)
for number in range(STEPS):
    state, metrics = step(state, recall.batch(number))
print(f"training loss {float(metrics['loss']):.4f} nats per question")

model = nnx.merge(graph, state["params"])
structure, stack = nnx.split(model.blocks)
block = nnx.merge(structure, jax.tree.map(lambda leaf: leaf[0], stack))
layer = block.attention
print(
    f"learned step size {float(layer.step_size(0)):.3f}, at the start {descent.step_size.initial}"
)

# %% [markdown]
# ## 2. Answers after each step
#
# `layer(h, sites, steps=t)` stops after $t$ steps, and goes on beyond $T$. The rest of the model
# stays as it is.

# %%
test = recall.batch(seed=10_000, rows=256)
question = slice(recall.KEYS, None)
h = model.embedding[...][jnp.asarray(test.inputs)]


@jax.jit(static_argnums=0)
def stopped(steps):
    """x after so many steps, [B, L, D]."""
    return layer(h, test.sites, steps=steps) if steps else h


@jax.jit
def answered(x):
    """Loss and share of right answers when the rest of the model reads x."""
    logits = model.logits(model.norm(block.mlp(x, test.sites)))[:, question]
    targets = jnp.asarray(test.targets)[:, question]
    loss = -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1).mean()
    return loss, (logits.argmax(-1) == targets).mean()


x = [stopped(t) for t in range(7)]
losses, right = np.array([answered(value) for value in x]).T
for t, share in enumerate(right):
    print(f"after {t} steps: {share:.1%} right, {losses[t]:.4f} nats")
assert losses.argmin() in (T - 1, T, T + 1)
assert right[T] > 0.99 > right[0]

figure, axis = plt.subplots()
axis.semilogy(losses, "o-")
axis.axvline(T, color=style.GREY, linestyle=":", label="$T$ in training")
axis.set(xlabel="inner steps taken", ylabel="loss (nats per question)")
axis.set_title(
    f"The answer needs the steps: {losses[1]:.3f} nats after one, {losses[T]:.4f} after {T}"
)
axis.legend()
plt.show()

# %% [markdown]
# Trained for three steps, the model does best with about three. Fewer leave the answer
# unfinished, and more go past it: a descent without a floor does not stop by itself.
#
# ## 3. Energy and length of the updates
#
# `run(..., trace=True)` records the energy of every position before and after each step.

# %%
trace = layer.run(h, test.sites, steps=6, trace=True)
energies = np.asarray(trace.energies[..., question])
lengths = np.linalg.norm(np.diff(np.stack(x), axis=0), axis=-1)[..., question].mean(axis=(1, 2))
assert (np.diff(energies.mean(axis=(1, 2))) < 0).all()
assert (np.diff(lengths) > 0).all()

figure, (left, right_axis) = plt.subplots(1, 2, figsize=(10.5, 4.2))
left.plot(energies.mean(axis=(1, 2)), "o-")
left.set(xlabel="inner steps taken", ylabel="mean energy of a question")
right_axis.bar(range(1, 7), lengths, color=style.BLUE)
right_axis.set(xlabel="inner step", ylabel="mean length of the update")
for axis in (left, right_axis):
    axis.axvline(T + (0.5 if axis is right_axis else 0), color=style.GREY, linestyle=":")
figure.suptitle("The energy keeps falling, and the steps do not shrink", x=0.01, ha="left")
plt.show()

# %% [markdown]
# As the [second notebook](02_energy_landscapes.ipynb) showed, the attention energy is a dome: it
# gets steeper on the way down. The layer is a walk of a chosen length, not a search for a
# minimum.
#
# ## 4. Attention at each step
#
# The softmax is computed anew in each step, at the $u$ that the last one left. Sort pairs and
# questions by their key, and the right answer is on the diagonal.

# %%
c = layer.norm(h)
context = layer.energy.condition(c, test.sites)


def attention_weights(x):
    """p_hij at the u of this x, [B, H, L, L]."""
    terms = layer.energy.terms(c + (x - h), context)  # norm mode "once": u = c + (x - h)
    logits, _ = masked_logits(terms, test.sites, test.sites, layer.energy.config.visible)
    return jax.nn.softmax(logits, axis=-1)


weights = np.stack([attention_weights(value) for value in x[: T + 1]])[..., question, :]
shown = test.inputs[:, : recall.KEYS] // recall.VALUES
asked = test.inputs[:, question] - recall.KEYS * recall.VALUES
answers = shown[:, None, :] == asked[:, :, None]  # [B, question, pair]
on_answer = (weights[..., : recall.KEYS] * answers[:, None]).sum(-1).mean((1, 3))  # [T + 1, H]
assert on_answer[T].mean() > on_answer[0].mean()

figure, axes = plt.subplots(1, T + 1, figsize=(11.5, 3.6), sharey=True)
pairs, questions = np.argsort(shown[0]), np.argsort(asked[0])
for t, axis in enumerate(axes):
    mean = weights[t, 0].mean(0)[questions][:, pairs]
    image = axis.imshow(mean, vmin=0, vmax=0.6)
    axis.set(xlabel="key of the pair", title=f"after {t} steps")
    axis.spines[:].set_visible(False)
axes[0].set_ylabel("key that is asked for")
figure.colorbar(image, ax=axes, label="weight, mean of heads", shrink=0.9)
figure.suptitle("Each step looks harder at the right pair", x=0.01, ha="left")
plt.show()

# %%
figure, axis = plt.subplots()
for head, share in enumerate(on_answer.T):
    axis.plot(share, "o-", label=f"head {head + 1}")
axis.set(xlabel="inner steps taken", ylabel="weight on the right pair (mean)", ylim=(0, 1))
axis.set_xticks(range(T + 1))
axis.set_title(
    f"Weight on the right pair: {on_answer[0].mean():.2f} before the first step, "
    f"{on_answer[T].mean():.2f} after the last"
)
axis.legend(ncols=4)
plt.show()

# %% [markdown]
# ## 5. The preconditioner
#
# $P$ started as the identity and was trained. Its eigenvalues say how it stretches the gradient;
# a negative one would turn part of it uphill. `cem train --model cem` reports the least one of
# each layer.

# %%
eigenvalues = np.linalg.eigvalsh(layer.preconditioner.matrix())
least = float(least_eigenvalue(layer.preconditioner))
assert np.isclose(least, eigenvalues[0], atol=1e-4)

figure, axis = plt.subplots()
axis.axhline(1, color=style.GREY, linestyle=":", label="at the start, $P = I$")
axis.axhline(0, color=style.BLACK, linewidth=1)
axis.bar(
    range(1, len(eigenvalues) + 1),
    eigenvalues,
    color=np.where(eigenvalues < 0, style.VERMILION, style.BLUE),
)
axis.set(xlabel="eigenvalue of $P$, in order", ylabel="value")
axis.set_title(f"Training moves $P$ away from the identity; the least eigenvalue is {least:.2f}")
axis.legend()
plt.show()

# %% [markdown]
# Since the energy is concave in $u$, each step lowers it by at least $\eta\, g^\top P g$,
# whatever $P$ is; `concave_decrease` measures both sides.

# %%
won = jax.jit(lambda h: concave_decrease(layer, h, test.sites))(h)
assert bool((won.found >= won.promised - 1e-3).all())
print(f"steps of a position that went uphill: {float((won.found < 0).mean()):.2%}")

figure, axis = plt.subplots(figsize=(6.4, 5.2))
for t in range(T):
    axis.plot(won.promised[t, :16].ravel(), won.found[t, :16].ravel(), ".", label=f"step {t + 1}")
limit = float(won.promised.max())
axis.plot([0, limit], [0, limit], color=style.BLACK, linewidth=1, label="equal")
axis.set(xlabel=r"promised, $\eta\, g^\top P g$", ylabel="decrease of the energy that was found")
axis.set_title("Every step wins what concavity promises")
axis.legend()
plt.show()
