"""A transformer as one frozen description: sublayers are data, in any mix."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array

from cem_jax.descent import DescentConfig, PreconditionerConfig, StepSizeConfig
from cem_jax.energies import ContextScoreConfig, ElementwiseConfig, InteractionConfig
from cem_jax.models.layer import CEMConfig
from cem_jax.models.llama import MHAConfig, SwiGLUConfig
from cem_jax.ops.checks import require_count, require_one_of, require_positive
from cem_jax.ops.dtypes import require_floating
from cem_jax.ops.remat import Remat, require_remat
from cem_jax.ops.rotary import Rotary
from cem_jax.ops.visibility import Sites

Family = Literal["llama", "cem-attention", "cem-mlp", "cem", "cem-context"]
"""What a preset makes of its two sublayers: the baseline's, CEM layers in place of its attention,
of its MLP or of both, or `context_sublayers`, the best that was found."""


@runtime_checkable
class Sublayer(Protocol):
    """Maps ``h [B, L, D]`` at its sites to the next ``h``, norm and residual included."""

    def __call__(self, h: Array, sites: Sites | None = None) -> Array:
        """The next ``h``."""
        ...


@runtime_checkable
class SublayerConfig(Protocol):
    """A frozen description of a sublayer, which builds it for a model."""

    def build(self, dim: int, *, norm_eps: float, dtype: DTypeLike, rngs: nnx.Rngs) -> Sublayer:
        """The sublayer with fresh parameters."""
        ...


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What the presets vary in a CEM sublayer; the defaults are the full CEM of the paper.

    Attributes:
        steps: T of both sublayers.
        diagonal: of the interaction energy.
        preconditioner: of both sublayers; None is the identity.
        remat: what the training derivative keeps of sublayers, and of each inner step within
            them; see `ops.remat`.
    """

    steps: int = 2
    diagonal: Literal["none", "head", "shared"] = "shared"
    preconditioner: PreconditionerConfig | None = PreconditionerConfig(rank=16)
    remat: Remat = "none"


def default_recipe(family: Family) -> Recipe:
    """What a preset takes unless it is told: one step without P for "cem-context"."""
    return Recipe(steps=1, preconditioner=None) if family == "cem-context" else Recipe()


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """A decoder of ``layers`` blocks, each an attention sublayer and an MLP sublayer.

    Attributes:
        vocab_size: V.
        dim: D.
        layers: the number of blocks.
        attention: `CEMConfig` or `MHAConfig`, or any other `SublayerConfig`.
        mlp: `CEMConfig` or `SwiGLUConfig`, or any other.
        tie_embeddings: whether the readout is the embedding.
        norm_eps: of every RMS norm.
        dtype: of the products, ``"float32"`` or ``"bfloat16"`` (``"float64"`` in tests);
            parameters and the residual stream stay float32.
        remat: what the training derivative keeps of each sublayer, attention and MLP separately:
            ``"none"`` all, ``"products"`` those with weights, ``"full"`` its input alone;
            `DescentConfig.remat` says so for each inner step.
        loops: how many times the stream goes through all blocks, whose parameters it shares: above
            1 a looped transformer (Dehghani et al., arXiv 1807.03819), the baseline of recursion
            that is not within a layer.
    """

    vocab_size: int
    dim: int
    layers: int
    attention: SublayerConfig
    mlp: SublayerConfig
    tie_embeddings: bool = True
    norm_eps: float = 1e-5
    dtype: str = "float32"
    remat: Remat = "none"
    loops: int = 1

    def __post_init__(self) -> None:
        for name in ("vocab_size", "dim", "layers", "loops"):
            require_count(name, getattr(self, name))
        require_positive("norm_eps", self.norm_eps)
        require_floating("dtype", self.dtype)
        require_remat("remat", self.remat)
        for name in ("attention", "mlp"):
            _require_sublayer(name, getattr(self, name))

    @classmethod
    def micro(
        cls, family: Family = "cem", recipe: Recipe | None = None, *, vocab_size: int = 2048
    ) -> TransformerConfig:
        """Four blocks of width 64, 4 heads, feed-forward 172; embeddings tied.

        The size of ``experiments/language_model``: its Llama has 0.2M parameters without the
        embedding. Parameters count everything.
        """
        return _preset(family, recipe, vocab_size, dim=64, layers=4, heads=4, features=172)

    @classmethod
    def tiny(
        cls, family: Family = "cem", recipe: Recipe | None = None, *, vocab_size: int = 2048
    ) -> TransformerConfig:
        """Four blocks of width 128, 4 heads, feed-forward 344; embeddings tied.

        What ``cem train`` trains in minutes on two CPU cores. Parameters count everything.
        """
        return _preset(family, recipe, vocab_size, dim=128, layers=4, heads=4, features=344)

    @classmethod
    def small(
        cls, family: Family = "cem", recipe: Recipe | None = None, *, vocab_size: int = 8192
    ) -> TransformerConfig:
        """Six blocks of width 256, 4 heads, feed-forward 688; embeddings tied.

        The size of the CPU measurements. Parameters count everything.
        """
        return _preset(family, recipe, vocab_size, dim=256, layers=6, heads=4, features=688)

    @classmethod
    def paper(
        cls, family: Family = "llama", recipe: Recipe | None = None, *, vocab_size: int = 50_257
    ) -> TransformerConfig:
        """Twelve blocks of width 768, 12 heads, feed-forward 2048; embeddings not tied.

        The scale of arXiv 2605.07588. The Llama has 85.0M parameters without both embedding
        matrices (norm gains included) and 162.1M with them.
        """
        config = _preset(family, recipe, vocab_size, dim=768, layers=12, heads=12, features=2048)
        return dataclasses.replace(config, tie_embeddings=False)


def _require_sublayer(name: str, config: Any) -> None:
    build = None if isinstance(config, type) else getattr(config, "build", None)
    # An energy's config builds too, but for a layer: without the sublayer's own arguments.
    if build is None or "norm_eps" not in inspect.signature(build).parameters:
        raise ValueError(
            f"{name}: got {config!r}, expected the config of a sublayer, with "
            f"build(dim, *, norm_eps, dtype, rngs); wrap an energy as CEMConfig(energy)."
        )


def _preset(
    family: Family,
    recipe: Recipe | None,
    vocab_size: int,
    *,
    dim: int,
    layers: int,
    heads: int,
    features: int,
) -> TransformerConfig:
    require_one_of("family", family, get_args(Family))
    recipe = default_recipe(family) if recipe is None else recipe
    for_attention, for_mlp = preset_descents(recipe, layers)
    attention: SublayerConfig = MHAConfig(heads)
    mlp: SublayerConfig = SwiGLUConfig(features)
    if family in ("cem", "cem-attention"):
        attention = CEMConfig(InteractionConfig(heads, diagonal=recipe.diagonal), for_attention)
    if family in ("cem", "cem-mlp"):
        mlp = CEMConfig(ElementwiseConfig(features), for_mlp)
    if family == "cem-context":
        size = {"dim": dim, "layers": layers, "heads": heads, "features": features}
        attention, mlp = context_sublayers(recipe, **size)
    return TransformerConfig(vocab_size, dim, layers, attention, mlp, remat=recipe.remat)


def context_sublayers(
    recipe: Recipe, *, dim: int, layers: int, heads: int, features: int
) -> tuple[CEMConfig, CEMConfig]:
    """The best energies that were found, at about the parameters of a Llama (0.92 of its blocks').

    Attention: equation (5b), a score of the context alone, of half a head's width, and a relative
    bias; both tell where a position is, so that u itself is not rotated. MLP: half as many
    features again. ``experiments/RESULTS.md`` says what this was compared with, and at what size:
    ``context-full`` there is this at width 64.

    Args:
        recipe: see `default_recipe`.
        dim: D.
        layers: the number of blocks, by which eta is scaled.
        heads: H, of width D / H.
        features: of the Llama's MLP.

    Returns:
        The configs of attention and MLP. The bias has an entry for each distance up to 127, the
        last of which all larger ones share. At ``micro`` the MLP has 258 features, which an axis
        ``tensor`` of 4 does not divide.

    Raises:
        ValueError: sizes that the energies refuse.
    """
    attention = InteractionConfig(
        heads,
        diagonal=recipe.diagonal,
        rotary=Rotary(fraction=0.0),
        relative_bias=128,
        context_score=ContextScoreConfig(width=max(2, dim // heads // 4 * 2)),
    )
    mlp = ElementwiseConfig(3 * features // 2)
    for_attention, for_mlp = preset_descents(recipe, layers)
    return CEMConfig(attention, for_attention), CEMConfig(mlp, for_mlp)


def preset_descents(recipe: Recipe, layers: int) -> tuple[DescentConfig, DescentConfig]:
    """How the attention and the MLP of a preset descend.

    The step sizes at the start were tuned on validation at four layers, with T = 1 and 2 and
    without P (``experiments/LOG.md``); by the square root of depth, a rule of ours that was not
    tested, the sum of the updates of all layers keeps its size. They are learned from there.

    Args:
        recipe: steps, preconditioner, remat. With P these step sizes were worse than without
            (C6 in ``experiments/RESULTS.md``); P was not tuned beside them.
        layers: the number of blocks, by which eta is scaled.

    Returns:
        The descent of the attention and that of the MLP.
    """

    def descent(step_size: float) -> DescentConfig:
        return DescentConfig(
            steps=recipe.steps,
            step_size=StepSizeConfig(initial=round(step_size * math.sqrt(4 / layers), 4)),
            preconditioner=recipe.preconditioner,
            # A few steps compile to straight code, which XLA fuses; many only compile longer.
            unroll=min(recipe.steps, 4) if recipe.remat == "none" else 1,
            remat=recipe.remat,
        )

    return descent(2.0), descent(0.05)
