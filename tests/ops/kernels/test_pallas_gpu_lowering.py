"""Our Triton kernels, lowered for a GPU on a machine without one."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractDevice, AbstractMesh

from cem_jax import Sites, Visible
from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.kernels.pallas_gpu import KERNEL

TRITON = "__gpu$xla.gpu.triton"

# JAX 0.12 announces, when it lowers for Triton, that a later version will not.
pytestmark = pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")


def lowered(function, *shapes):
    """The module for an NVIDIA H200. An unstable custom call is none that we would store."""
    mesh = AbstractMesh(
        (1,), ("x",), abstract_device=AbstractDevice("NVIDIA H200", num_cores=132, platform="gpu")
    )
    unstable = jax.export.DisabledSafetyCheck.custom_call(TRITON)
    with jax.sharding.use_abstract_mesh(mesh):
        export = jax.export.export(
            jax.jit(function), platforms=["cuda"], disabled_checks=[unstable]
        )
        return export(*shapes).mlir_module()


def shapes(dtype, diagonal, score):
    """Lengths and widths that are no multiples of a tile; keys shared by two heads each."""

    def some(*shape):
        return jax.ShapeDtypeStruct(shape, dtype)

    made = AttentionTerms(
        some(2, 300, 4, 40), some(2, 520, 2, 40), jax.ShapeDtypeStruct((), "float32")
    )
    if diagonal:
        made = made._replace(weight=some(2, 300, 100), context=some(2, 520, 100))
    if score:
        made = made._replace(context_query=some(2, 300, 4, 24), context_key=some(2, 520, 2, 24))
    sites = [Sites(*[jax.ShapeDtypeStruct((2, n), jnp.int32)] * 2) for n in (300, 520)]
    return made, *sites


@pytest.mark.parametrize(
    ("dtype", "diagonal", "score", "kernels"),
    [
        ("bfloat16", False, False, (1, 2)),
        ("bfloat16", False, True, (1, 2)),
        ("bfloat16", True, False, (2, 4)),
        ("bfloat16", True, True, (2, 4)),
        ("float32", True, True, (2, 4)),
    ],
)
def test_both_passes_lower(dtype, diagonal, score, kernels):
    made, query, key = shapes(dtype, diagonal, score)
    names = tuple(name for name, value in made._asdict().items() if value is not None)
    visible = Visible(window=100)

    def forward(*operands):
        return KERNEL.forward(visible, *operands)

    def backward(*operands):
        return KERNEL.backward(visible, *operands, names)

    found = jax.eval_shape(forward, made, query, key)
    modules = lowered(forward, made, query, key), lowered(backward, made, query, key, found, found)
    assert tuple(module.count(TRITON) for module in modules) == kernels


def test_sixty_four_bit_integers_do_not_reach_the_kernels(x64):
    made, query, key = shapes("bfloat16", True, True)
    module = lowered(lambda *operands: KERNEL.forward(Visible(), *operands), made, query, key)
    assert module.count(TRITON) == 2
