"""Shapes of meshes: what names them, and what is refused."""

import jax
import pytest
from jax.sharding import AxisType

from cem_jax.sharding import Layout, MeshShape


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("single", (1, 1, 1, 1)),
        ("data", (8, 1, 1, 1)),
        ("fsdp", (1, 8, 1, 1)),
        ("fsdp+tensor", (1, 4, 2, 1)),
        ("context", (1, 1, 1, 8)),
        ("tensor=2, fsdp=3", (1, 3, 2, 1)),
        ("data=2,context=4", (2, 1, 1, 4)),
    ],
)
def test_a_name_or_sizes_make_a_shape(text, sizes):
    shape = MeshShape.parse(text, 8)
    assert tuple(shape.sizes.values()) == sizes
    assert MeshShape.parse(str(shape), 1) == shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fsdp+context", "expected one of single, data, fsdp"),
        ("fsdp=2,fsdp=4", "each once, such as fsdp=4,tensor=2"),
        ("fsdp=two", "got 'fsdp=two'"),
        ("model=2", "got 'model=2'"),
        ("", "got ''"),
        ("fsdp=0", "mesh, fsdp: got 0"),
    ],
)
def test_what_names_no_shape_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        MeshShape.parse(text, 8)
    with pytest.raises(ValueError, match="expected an even number"):
        MeshShape.parse("fsdp+tensor", 7)


def test_one_device_in_auto_mode_by_default():
    mesh = Layout.of().mesh
    assert mesh.axis_types == (AxisType.Auto,) * 4
    assert mesh.size == 1
    with pytest.raises(ValueError, match=r"got fsdp=512 of 512 devices where there are \d+,"):
        MeshShape(fsdp=512).build(jax.devices())
