# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # Attention is one gradient step
#
# A transformer layer can be read as an optimiser. Position $i$ owns a variable $x_i$, starts it
# at the layer's input $h_i$, and lowers an energy $\varepsilon(x_i \mid h_{1:i})$ by gradient
# steps. This notebook takes one step on one energy, derives what that step is, and finds
# multi-head attention.
#
# Every formula stands beside code that checks it. The numbers in brackets are those of
# [docs/equations.md](../docs/equations.md). The idea is that of Causal Energy Minimization (arXiv
# 2605.07588).

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import style
from flax import nnx

from cem_jax import (
    CEMMLP,
    CEMAttention,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    StepSizeConfig,
)
from cem_jax.ops.rotary import Rotary, rotate, rotation

style.use()
L, D, H, K = 12, 32, 4, 8  # positions, model width, heads, head width
TAU = K**0.5  # the temperature
draw = iter(jax.random.split(jax.random.key(0), 100))


def normal(*shape, scale=1.0):
    """A random array."""
    return scale * jax.random.normal(next(draw), shape)


def same(left, right):
    """Whether two arrays agree to float32 rounding; prints how far they are apart."""
    error = float(jnp.max(jnp.abs(left - right)) / jnp.max(jnp.abs(right)))
    print(f"largest difference, relative to the largest entry: {error:.1e}")
    assert error < 1e-5


# %% [markdown]
# ## 1. An energy whose gradient is a softmax
#
# Let $u_i$ be the variable of position $i$ and $c_j$ the (fixed) context. With a matrix $A$ that
# scores pairs, take
#
# $$\varepsilon(u_i \mid c_{1:i}) = -\tau \log \sum_{j \le i} \exp(u_i^\top A\, c_j / \tau).$$
#
# The derivative of $\log\sum\exp$ is the softmax, $p_{ij} = \operatorname{softmax}_j(u_i^\top A\,
# c_j/\tau)$, and the chain rule brings the factor $A c_j$ down. The temperature cancels:
#
# $$-\nabla_{u_i}\, \varepsilon = \sum_{j \le i} p_{ij}\, A\, c_j .$$
#
# That is attention already: weights from a softmax over the past, and values $A c_j$.


# %%
def log_sum_exp(scores):
    """log sum_j exp(scores_ij / tau) over j <= i; the future is masked."""
    past = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jax.nn.logsumexp(jnp.where(past, scores / TAU, -jnp.inf), axis=-1)


def softmax(scores):
    """The weights of causal attention."""
    past = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jax.nn.softmax(jnp.where(past, scores / TAU, -jnp.inf), axis=-1)


def energy(u, c, a):
    """The energy of each position, [L]."""
    return -TAU * log_sum_exp(u @ a @ c.T)


u, c, a = normal(L, D), normal(L, D), normal(D, D, scale=1 / D)
descent = -jax.grad(lambda u: energy(u, c, a).sum())(u)
by_hand = softmax(u @ a @ c.T) @ (c @ a.T)
same(descent, by_hand)

# %% [markdown]
# Position $i$'s energy depends on its own $u_i$ only, so the gradient of the *sum* of all
# energies gives every position its own gradient. Nothing leaks between positions.
#
# The weights themselves are a derivative, too: $p_{ij} = -\partial \varepsilon_i / \partial
# s_{ij}$ for the scores $s_{ij} = u_i^\top A\, c_j$.

# %%
scores = 6 * u @ a @ c.T
weights = jax.grad(lambda s: TAU * log_sum_exp(s).sum())(scores)
same(weights, softmax(scores))

figure, axis = plt.subplots(figsize=(6.2, 4.8))
image = axis.imshow(weights, vmin=0, vmax=1)
axis.set(xlabel="attended position $j$", ylabel="position $i$")
axis.set_title(r"Attention weights are $-\partial\varepsilon_i\,/\,\partial s_{ij}$")
figure.colorbar(image, label="weight $p_{ij}$ (each row sums to 1)")
plt.show()

# %% [markdown]
# ## 2. Heads: multi-head attention with tied weights
#
# Add the energies of $H$ heads, (2), and give each a matrix of low rank, (3):
#
# $$\varepsilon = -\tau \sum_h \log \sum_{j\le i} \exp(s_{hij}/\tau),\qquad
#   s_{hij} = u_i^\top W_{Q,h}^\top W_{K,h}\, c_j, \qquad \tau = \sqrt{K}.$$
#
# The same two lines of calculus give
#
# $$-\nabla_{u_i}\varepsilon = \sum_h W_{Q,h}^\top \sum_{j\le i} p_{hij}\, W_{K,h}\, c_j .$$
#
# Read it from the right: keys $W_K c_j$ are averaged with the softmax's weights, and the average
# is mapped back to the model's width by $W_Q^\top$. It is multi-head attention with $W_V = W_K$
# and $W_O = W_Q^\top$. To check that, here is multi-head attention as any textbook has it, with
# four matrices of its own.


# %%
def multi_head_attention(u, c, wq, wk, wv, wo):
    """Causal attention; wq, wk, wv [D, H, K] and wo [H, K, D]."""
    q = jnp.einsum("ld,dhk->lhk", u, wq)
    k = jnp.einsum("sd,dhk->shk", c, wk)
    v = jnp.einsum("sd,dhk->shk", c, wv)
    p = softmax(jnp.einsum("lhk,shk->hls", q, k))
    read = jnp.einsum("hls,shk->lhk", p, v)
    return jnp.einsum("lhk,hkd->ld", read, wo)


def interaction_energy(u, c, wq, wk):
    """Equations (2) and (3)."""
    q = jnp.einsum("ld,dhk->lhk", u, wq)
    k = jnp.einsum("sd,dhk->shk", c, wk)
    return -TAU * log_sum_exp(jnp.einsum("lhk,shk->hls", q, k)).sum(axis=0)


def transposed(wq):
    """W_Q^T of each head, [H, K, D]."""
    return jnp.transpose(wq, (1, 2, 0))


wq, wk = normal(D, H, K, scale=D**-0.5), normal(D, H, K, scale=D**-0.5)
descent = -jax.grad(lambda u: interaction_energy(u, c, wq, wk).sum())(u)
same(descent, multi_head_attention(u, c, wq, wk, wv=wk, wo=transposed(wq)))

tied, untied = wq.size + wk.size, 4 * wq.size
print(f"parameters: {tied:,} here, {untied:,} in textbook attention ({tied / untied:.0%})")

# %% [markdown]
# Half of the parameters. That is the price and the gain of being a gradient.
#
# ## 3. Rotary embedding: the rotated keys are the values
#
# With rotary position embedding, scores are $s_{hij} = (R_i W_{Q,h} u_i)^\top (R_j W_{K,h}\,
# c_j)$, where $R_i$ turns a head by an angle that grows with position $i$. The exact gradient
# follows the rotation wherever it goes, (4):
#
# $$-\nabla_{u_i}\varepsilon
#   = \sum_h W_{Q,h}^\top\, R_i^\top \sum_{j\le i} p_{hij}\, R_j W_{K,h}\, c_j .$$
#
# So the *rotated* keys are the values, and what is read out is turned back. Since one tensor of
# rotated keys serves as keys and as values, a decoder caches half of what Llama caches.

# %%
turn = rotation(jnp.arange(L)[None], K, Rotary(), u.dtype)


def rotated(x, sign=1):
    """R_i of every position, x [L, H, K]; with sign -1 its transpose, which turns back."""
    cosine, sine = turn
    return rotate(x[None], (cosine, sign * sine))[0]


def rotary_energy(u, c, wq, wk):
    """Equations (2) and (4)."""
    q = rotated(jnp.einsum("ld,dhk->lhk", u, wq))
    k = rotated(jnp.einsum("sd,dhk->shk", c, wk))
    return -TAU * log_sum_exp(jnp.einsum("lhk,shk->hls", q, k)).sum(axis=0)


def rotary_attention(u, c, wq, wk, wv, wo, turn_values):
    """Attention with rotary embedding; Llama's has turn_values = False."""
    q = rotated(jnp.einsum("ld,dhk->lhk", u, wq))
    k = rotated(jnp.einsum("sd,dhk->shk", c, wk))
    v = jnp.einsum("sd,dhk->shk", c, wv)
    p = softmax(jnp.einsum("lhk,shk->hls", q, k))
    read = jnp.einsum("hls,shk->lhk", p, rotated(v) if turn_values else v)
    return jnp.einsum("lhk,hkd->ld", rotated(read, sign=-1) if turn_values else read, wo)


descent = -jax.grad(lambda u: rotary_energy(u, c, wq, wk).sum())(u)
same(descent, rotary_attention(u, c, wq, wk, wk, transposed(wq), turn_values=True))

# %% [markdown]
# ## 4. Is ordinary attention a gradient of something else?
#
# Perhaps untied attention descends some other energy? It does not (with the context held fixed,
# as it is here), and there is a test: a vector field is a gradient only if its Jacobian is
# symmetric, $\partial f_a / \partial u_b = \partial f_b / \partial u_a$, since both are the
# second derivative of one function. So we take the Jacobian $J$ of the last position's update in
# its own $u$, for four forms of attention with the same $W_Q$ and $W_K$.


# %%
def asymmetry(update):
    """|J - J^T| / |J + J^T| of the last position's update; 0 for a gradient."""

    def last(own):
        return update(u.at[-1].set(own))[-1]

    j = np.asarray(jax.jacobian(last)(u[-1]))
    return np.linalg.norm(j - j.T) / np.linalg.norm(j + j.T)


wv, wo = normal(D, H, K, scale=D**-0.5), normal(H, K, D, scale=D**-0.5)
forms = {
    "tied (3)": lambda u: multi_head_attention(u, c, wq, wk, wk, transposed(wq)),
    "tied, rotary,\nturned back (4)": lambda u: rotary_attention(
        u, c, wq, wk, wk, transposed(wq), turn_values=True
    ),
    "tied, rotary,\nunturned values": lambda u: rotary_attention(
        u, c, wq, wk, wk, transposed(wq), turn_values=False
    ),
    "untied\n(textbook)": lambda u: multi_head_attention(u, c, wq, wk, wv, wo),
}
found = {name: asymmetry(form) for name, form in forms.items()}
assert [value < 1e-5 for value in found.values()] == [True, True, False, False]

figure, axis = plt.subplots(figsize=(8, 4.2))
colours = [style.BLUE if value < 1e-5 else style.ORANGE for value in found.values()]
bars = axis.bar(list(found), list(found.values()), color=colours, width=0.6)
axis.bar_label(
    bars, [f"{value:.0e}" if value < 1e-5 else f"{value:.2f}" for value in found.values()]
)
axis.set_ylabel("asymmetry $|J - J^T| \\,/\\, |J + J^T|$")
axis.set_title("Only tied attention is the gradient of an energy")
plt.show()

# %% [markdown]
# ## 5. The library's layer
#
# `CEMAttention` contains no attention formula. It holds an energy, takes `jax.grad` of it, and
# applies the result $T$ times, (1):
#
# $$x^{(0)} = h,\qquad x^{(t+1)} = x^{(t)} - \eta\, P\, \nabla_u\, \varepsilon(u^{(t)} \mid c),
#   \qquad u = \operatorname{norm}(x),\quad c = \operatorname{norm}(h).$$
#
# With $T = 1$, $\eta = 1$ and $P = I$ it must equal `h + attention(norm(h))`, written by hand.

# %%
one_step = DescentConfig(steps=1, step_size=StepSizeConfig(initial=1.0))
layer = CEMAttention(D, InteractionConfig(heads=H), one_step, rngs=nnx.Rngs(0))

h = normal(L, D)
c = h / jnp.sqrt(jnp.mean(h**2, axis=-1, keepdims=True) + 1e-5)  # RMS norm, gain 1
wq, wk = layer.energy.wq[...], layer.energy.wk[...]
expected = h + rotary_attention(c, c, wq, wk, wk, transposed(wq), turn_values=True)
same(layer(h[None])[0], expected)

# %% [markdown]
# ## 6. The MLP, in the same way
#
# A gated MLP is a step on an energy that looks at no other position, (6). With $\Phi' = \phi$,
#
# $$\varepsilon = -\sum_f (W_g c)_f\, \Phi\big((W_u u)_f\big)
#   \quad\Rightarrow\quad -\nabla_u\varepsilon = W_u^\top \big[(W_g c) \odot \phi(W_u u)\big],$$
#
# which is SwiGLU (for $\phi$ = SiLU) with the down projection tied to the input projection $W_u$:
# two-thirds of the parameters.

# %%
mlp = CEMMLP(D, ElementwiseConfig(features=2 * D), one_step, rngs=nnx.Rngs(1))
gate, up = mlp.energy.gate[...], mlp.energy.up[...]  # [D, F]
same(mlp(h[None])[0], h + ((c @ gate) * jax.nn.silu(c @ up)) @ up.T)

tied, untied = gate.size + up.size, 3 * gate.size
print(f"parameters: {tied:,} here, {untied:,} in SwiGLU ({tied / untied:.0%})")

# %% [markdown]
# ## What this buys
#
# A layer that is a step of a descent can take a second and a third one, with the same weights; it
# can be preconditioned; and it can minimise any other energy one cares to write. The next
# notebook looks at the surfaces these steps move on.
#
# `cem verify` repeats the comparisons of this notebook for every option of every energy, in three
# precisions, with first and second derivatives.
