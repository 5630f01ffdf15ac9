# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
# ---

# %% [markdown]
# # Gaussian processes: how near to the best predictor?
#
# On most tasks nobody knows the lowest possible loss. Here it is known exactly. A sequence is a
# set of pairs $(x_i, y_i)$ from a Gaussian process, and the model predicts each $y_i$ from $x_i$
# and the pairs before it. The best predictor is Bayes' rule, which can be computed. This notebook
# trains a tiny CEM model on that task, draws its predictions beside the Bayes predictor's, and
# then shows what more inner steps $T$ did in the committed runs of
# [experiments/gaussian_process](../experiments/gaussian_process/README.md).
#
# The task follows the synthetic one of arXiv 2605.07588, whose details are not public: prior,
# tokens and training are this library's.

# %%
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import style
from flax import nnx
from IPython.display import Image, display

# The experiments are a folder of the clone and no part of the installed package.
sys.path.append(str(Path(style.__file__).parents[1]))

from experiments.gaussian_process import bayes
from experiments.gaussian_process.figures import draw_positions, draw_steps
from experiments.gaussian_process.gap import share
from experiments.gaussian_process.model import ModelConfig, Regressor
from experiments.gaussian_process.plan import CASES, cem
from experiments.gaussian_process.prior import ONE, Point
from experiments.gaussian_process.results import FOLDER, load_results
from experiments.gaussian_process.train import Training, draw_test, squared_error, stream

style.use()
NAMES = {"rbf": "RBF", "matern12": "Matérn 1/2", "matern32": "Matérn 3/2", "matern52": "Matérn 5/2"}

# %% [markdown]
# ## 1. The task
#
# Each sequence has its own kernel (RBF or Matérn), length scale and noise, drawn from a grid.
# Within a sequence, the function is smooth or rough, and a good predictor has to find out which.

# %%
training = Training(steps=1000, test_sequences=128)
test = draw_test(ONE, training)
print(f"{len(ONE.grid)} combinations of {', '.join(NAMES.values())}, length scale and noise")

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
chosen = np.unique(np.asarray(test.point), return_index=True)[1][[0, 20, -1]]
for axis, row in zip(axes, chosen, strict=True):
    point = ONE.grid[int(test.point[row])]
    axis.plot(test.x[row, :, 0], test.y[row], "o", markersize=5)
    axis.set(xlabel="input $x$")
    scale, noise = f"$\\ell$ = {point.length_scale}", f"$\\sigma$ = {point.noise}"
    axis.set_title(f"{NAMES[point.kernel]}, {scale}, {noise}", fontsize=12)
axes[0].set_ylabel("value $y$ (prior variance 1)")
figure.suptitle(
    "Every sequence has a kernel, a length scale and a noise of its own", x=0.01, ha="left"
)
plt.show()

# %% [markdown]
# ## 2. Train a tiny model
#
# One layer of CEM attention with $T = 2$ steps, between a small embedding and a linear readout;
# no MLP layer. The token of position $i$ holds $x_i$ and the pair before it, so the prediction of
# $y_i$ sees all pairs before $i$ and never $y_i$ itself. Every step draws new sequences.

# %%
config = ModelConfig(input_dim=1, dim=64, layers=1, attention=cem(steps=2))
graph, params = nnx.split(Regressor(config, rngs=nnx.Rngs(0)), nnx.Param)
optimiser = training.optimiser()


def loss(params, draw):
    """Mean squared error against the noisy values."""
    return squared_error(nnx.merge(graph, params), draw).mean()


@jax.jit
def train(params):
    """All steps as one program; the data of a step are drawn inside."""

    def step(carry, key):
        params, state = carry
        draw = ONE.sample(key, training.sequences, training.length)
        value, gradient = jax.value_and_grad(loss)(params, draw)
        updates, state = optimiser.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), value

    keys = jax.random.split(stream(3), training.steps)
    (params, _), losses = jax.lax.scan(step, (params, optimiser.init(params)), keys)
    return params, losses


params, losses = train(params)
model = nnx.merge(graph, params)
first, last = losses[:20].mean(), losses[-20:].mean()
print(f"mean squared error: {first:.2f} in the first 20 steps, {last:.2f} in the last")
assert last < 0.6 * first

# %% [markdown]
# ## 3. Beside the Bayes predictor
#
# Take one sequence of the test draw, show the first $n$ pairs, and ask for the value at every
# $x$. The Bayes predictor weighs the posterior means of all combinations on the grid by how well
# they explain the $n$ pairs. The grid *is* the prior, so this is exact.

# %%
point = Point("rbf", length_scale=0.5, noise=0.15)
ROW = int(np.flatnonzero(test.point == ONE.grid.index(point))[0])
ask = np.linspace(-2, 2, 161)
pairs_x, pairs_y = np.asarray(test.x[ROW]), np.asarray(test.y[ROW])


def asked_after(n):
    """The first n pairs and one question, for every point of `ask`."""
    x = np.concatenate([np.tile(pairs_x[:n], (len(ask), 1, 1)), ask[:, None, None]], axis=1)
    y = np.concatenate([np.tile(pairs_y[:n], (len(ask), 1)), np.zeros((len(ask), 1))], axis=1)
    return x.astype(np.float32), y.astype(np.float32)


figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.4), sharey=True)
for axis, n in zip(axes, (6, 40), strict=True):
    x, y = asked_after(n)
    told = bayes.given_point(x, y, point)
    mean, spread = told.mean[:, -1], 2 * np.sqrt(told.variance[:, -1])
    axis.fill_between(
        ask,
        mean - spread,
        mean + spread,
        color=style.SKY,
        alpha=0.3,
        linewidth=0,
        label="95 % of values, kernel known",
    )
    axis.plot(ask, bayes.integrated(ONE, x, y)[:, -1], color=style.BLUE, label="Bayes predictor")
    axis.plot(
        ask,
        model(jnp.asarray(x), jnp.asarray(y))[:, -1],
        color=style.VERMILION,
        label="CEM, $T = 2$",
    )
    axis.plot(
        pairs_x[:n, 0], pairs_y[:n], "o", color=style.BLACK, markersize=5, label="pairs shown"
    )
    axis.set(xlabel="input $x$", title=f"after {n} pairs")
axes[0].set_ylabel("value $y$")
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=11)
figure.suptitle(
    "The model reads a function off its context, as the Bayes predictor does", x=0.01, ha="left"
)
plt.show()

# %% [markdown]
# ## 4. The gap
#
# Over the test draw, with $M$ the mean squared error against the noisy values, the share of the
# gap that a model closes is
#
# $$\frac{M_{\text{trivial}} - M_{\text{model}}}{M_{\text{trivial}} - M_{\text{Bayes}}},$$
#
# which is 0 for the prediction 0 and 1 for the Bayes predictor.

# %%
x, y = np.asarray(test.x), np.asarray(test.y)
errors = {
    "trivial": (y**2).mean(0),
    "bayes": ((bayes.integrated(ONE, x, y) - y) ** 2).mean(0),
    "model": np.asarray(squared_error(model, test)),
}
assert errors["bayes"].mean() < errors["model"].mean() < errors["trivial"].mean()
closed = share(errors["model"], errors)

figure, axis = plt.subplots()
looks = {
    "trivial": ("prediction 0", style.GREY),
    "model": ("CEM, $T = 2$", style.VERMILION),
    "bayes": ("Bayes predictor", style.BLUE),
}
for name, (label, colour) in looks.items():
    smooth = np.convolve(np.sqrt(errors[name]), np.ones(5) / 5, mode="valid")
    axis.plot(np.arange(2, len(smooth) + 2), smooth, color=colour, label=label)
axis.set(
    xlabel="pairs before the prediction", ylabel="RMSE against the noisy value", ylim=(0, None)
)
axis.set_title(f"{training.steps:,} small steps close {closed:.0%} of the gap to Bayes")
axis.legend(ncols=3)
plt.show()

# %% [markdown]
# ## 5. What $T$ does: the committed runs
#
# The experiment trained every model with five seeds, all models with the same data at one seed.
# Its pictures are drawn here from the result files in the clone. Each title is computed from what
# is drawn; intervals are 95 % t intervals over seeds.

# %%
runs = load_results()
print(f"{sum(map(len, runs.values()))} runs of {len(CASES)} models are finished")
with tempfile.TemporaryDirectory() as folder, plt.style.context("default"):
    for draw in (draw_positions, draw_steps) if runs else ():
        draw(FOLDER, Path(folder) / "figure")
        display(Image(Path(folder) / "figure.png", width=900))

# %% [markdown]
# Budget and setting are small: 1,000 steps of eight sequences. What these figures say, they say
# about this budget. The table with all models, in one and five dimensions, is in the experiment's
# [README](../experiments/gaussian_process/README.md).
