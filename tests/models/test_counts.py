"""Parameters, against formulas derived by hand; nothing is allocated."""

import cases
import jax
import pytest
from flax import nnx

from cem_jax import (
    CEMConfig,
    ContextScoreConfig,
    DescentConfig,
    ElementwiseConfig,
    Energy,
    InteractionConfig,
    MHAConfig,
    PreconditionerConfig,
    Recipe,
    StepSizeConfig,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
)
from cem_jax.models import parameter_axes

FAMILIES = ("llama", "cem-attention", "cem-mlp", "cem")
PLAIN = DescentConfig(step_size=StepSizeConfig(learn="fixed"))


def abstract(config):
    built = nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0)))
    return nnx.to_pure_dict(nnx.state(built, nnx.Param))


def total(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def sublayer(config, dim=768):
    """The parameters of a sublayer without its norm's gain."""
    common = {"norm_eps": 1e-5, "dtype": "float32"}
    built = nnx.eval_shape(lambda: config.build(dim, rngs=nnx.Rngs(0), **common))
    return total(nnx.to_pure_dict(nnx.state(built, nnx.Param))) - dim


def test_cem_attention_has_half_of_the_parameters():
    assert sublayer(MHAConfig(12)) == 4 * 768**2
    assert sublayer(CEMConfig(InteractionConfig(12), PLAIN)) == 2 * 768**2


def test_grouped_keys_shrink_the_key_projection_alone():
    grouped = 768**2 + 768 * 4 * 64
    assert sublayer(CEMConfig(InteractionConfig(12, key_heads=4), PLAIN)) == grouped
    assert sublayer(MHAConfig(12, key_heads=4)) == 2 * grouped


def test_cem_mlp_has_two_thirds_of_the_parameters():
    assert sublayer(SwiGLUConfig(2048)) == 3 * 768 * 2048
    for form in ("nonlinear", "quadratic"):
        assert sublayer(CEMConfig(ElementwiseConfig(2048, form), PLAIN)) == 2 * 768 * 2048


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"diagonal": "shared"}, 768),
        ({"diagonal": "head"}, 12 * 768),
        ({"learn_temperature": True}, 1),
        ({"relative_bias": 256}, 12 * 256),
        ({"context_score": ContextScoreConfig(16)}, 2 * 768 * 12 * 16),
    ],
)
def test_options_of_attention_add_what_they_say(options, more):
    assert sublayer(CEMConfig(InteractionConfig(12, **options), PLAIN)) == 2 * 768**2 + more


@pytest.mark.parametrize(
    ("descent", "more"),
    [
        (DescentConfig(steps=3), 1),
        (DescentConfig(steps=3, step_size=StepSizeConfig(learn="step")), 3),
        (
            DescentConfig(
                step_size=StepSizeConfig(learn="fixed"), preconditioner=PreconditionerConfig(16)
            ),
            768 * (1 + 2 * 16),
        ),
    ],
)
def test_options_of_the_descent_add_what_they_say(descent, more):
    assert sublayer(CEMConfig(InteractionConfig(12), descent)) == 2 * 768**2 + more


def extras(family, layers, dim):
    """Of the full CEM, beyond its tied matrices: P and eta of each sublayer, and d."""
    each = dim * (1 + 2 * 16) + 1
    attention = each + dim if family in ("cem", "cem-attention") else 0
    return layers * (attention + (each if family in ("cem", "cem-mlp") else 0))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("preset", "layers", "dim", "features", "vocabulary", "tables"),
    [
        ("micro", 4, 64, 172, 2048, 1),
        ("tiny", 4, 128, 344, 2048, 1),
        ("small", 6, 256, 688, 8192, 1),
        ("paper", 12, 768, 2048, 50_257, 2),
    ],
)
def test_preset_has_the_parameters_of_its_formula(
    preset, family, layers, dim, features, vocabulary, tables
):
    attention = 2 * dim**2 if family in ("cem", "cem-attention") else 4 * dim**2
    mlp = (2 if family in ("cem", "cem-mlp") else 3) * dim * features
    blocks = layers * (attention + mlp + 2 * dim) + extras(family, layers, dim)
    found = total(abstract(getattr(TransformerConfig, preset)(family)))
    assert found == blocks + dim + tables * vocabulary * dim


@pytest.mark.parametrize(
    ("preset", "layers", "dim", "heads", "features", "vocabulary", "tables"),
    [
        ("micro", 4, 64, 4, 172, 2048, 1),
        ("tiny", 4, 128, 4, 344, 2048, 1),
        ("small", 6, 256, 4, 688, 8192, 1),
        ("paper", 12, 768, 12, 2048, 50_257, 2),
    ],
)
def test_context_preset_has_the_parameters_of_its_formula(
    preset, layers, dim, heads, features, vocabulary, tables
):
    # W_Q, W_K and the two of the context, half as wide; d, the bias and eta.
    attention = 3 * dim**2 + dim + 128 * heads + 1
    mlp = 2 * dim * (3 * features // 2) + 1
    blocks = layers * (attention + mlp + 2 * dim)
    found = total(abstract(getattr(TransformerConfig, preset)("cem-context")))
    assert found == blocks + dim + tables * vocabulary * dim
    llama = layers * (4 * dim**2 + 3 * dim * features + 2 * dim)
    assert 0.91 < blocks / llama < 0.93


@pytest.mark.parametrize("family", ["cem", "cem-context"])
@pytest.mark.parametrize(
    ("preset", "attention", "mlp"),
    [("micro", 2.0, 0.05), ("tiny", 2.0, 0.05), ("paper", 1.1547, 0.0289)],
)
def test_preset_starts_from_the_tuned_step_sizes_scaled_by_depth(preset, attention, mlp, family):
    config = getattr(TransformerConfig, preset)(family)
    assert config.attention.descent.step_size.initial == attention
    assert config.mlp.descent.step_size.initial == mlp


def test_paper_scale_llama_has_85_and_162_million():
    tree = abstract(TransformerConfig.paper("llama"))
    blocks = 12 * (4 * 768**2 + 3 * 768 * 2048 + 2 * 768)
    embeddings = total(tree["embedding"]) + total(tree["readout"])
    assert embeddings == 2 * 50_257 * 768
    assert total(tree) - embeddings == blocks + 768
    assert round((total(tree) - embeddings) / 1e6, 1) == 85.0
    assert round(total(tree) / 1e6, 1) == 162.1


def test_paper_scale_plain_cem_has_the_stated_shares():
    recipe = Recipe(steps=2, diagonal="none", preconditioner=None)
    sizes = {
        family: total(abstract(TransformerConfig.paper(family, recipe))["blocks"])
        for family in FAMILIES
    }
    attention, mlp = 12 * 4 * 768**2, 12 * 3 * 768 * 2048
    assert sizes["llama"] - sizes["cem-attention"] == attention // 2 - 12  # one eta per layer
    assert sizes["llama"] - sizes["cem-mlp"] == mlp // 3 - 12
    assert sizes["llama"] - sizes["cem"] == attention // 2 + mlp // 3 - 24


@pytest.mark.parametrize("preset", ["tiny", "small", "paper"])
@pytest.mark.parametrize("family", [*FAMILIES, "cem-context"])
def test_preset_names_every_axis_of_every_leaf(preset, family):
    config = getattr(TransformerConfig, preset)(family)
    tree, axes = abstract(config), parameter_axes(config)
    assert ("readout" in tree) == (not config.tie_embeddings)

    def check(leaf, names):
        assert len(names.split()) == leaf.ndim

    jax.tree.map(check, tree, axes)
    for names in jax.tree.leaves(axes["blocks"]):
        assert names.split()[0] == "N"


def test_axes_are_those_of_the_shapes():
    """One letter is one size, wherever it stands."""
    config = TransformerConfig.tiny("cem")
    sizes = {"V": 2048, "D": 128, "N": 4, "H": 4, "G": 4, "K": 32, "F": 344, "R": 16}

    def check(leaf, names):
        assert leaf.shape == tuple(sizes[name] for name in names.split())

    jax.tree.map(check, abstract(config), parameter_axes(config))


def test_energy_without_axis_names_is_replicated():
    class Bowl(Energy):
        def __init__(self, dim):
            self.scale = nnx.Param(jax.numpy.ones((dim,)))

        def __call__(self, u, context):
            return (self.scale[...][None, None] * u**2).sum(-1)

    class BowlConfig:
        def build(self, dim, *, rngs):
            return Bowl(dim)

    config = TransformerConfig(5, cases.D, 2, CEMConfig(BowlConfig(), PLAIN), SwiGLUConfig(4))
    assert parameter_axes(config)["blocks"]["attention"]["energy"]["scale"] is None
