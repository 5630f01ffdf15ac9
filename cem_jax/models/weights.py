"""Weights in a safetensors file: the nested dict of parameters under flat names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from cem_jax.models.config import TransformerConfig
from cem_jax.models.transformer import Transformer

Params = dict[str, Any]
"""A nested plain dict of arrays, as the trainer's ``state["params"]``."""

NAMED = 8
"""How many names of a list a message holds."""


def flatten(params: Params) -> dict[str, Any]:
    """The leaves under their path, such as ``blocks.attention.energy.wq``.

    Raises:
        ValueError: a leaf that is no array of numbers, or a key that would not come back.
    """
    return dict(_leaves(params, ""))


def unflatten(flat: dict[str, Any]) -> Params:
    """The inverse of `flatten`: a part of a name that is all digits is an integer key.

    Raises:
        ValueError: a name that is also the beginning of another.
    """
    params: Params = {}
    for name, leaf in flat.items():
        *path, last = (int(part) if part.isdecimal() else part for part in name.split("."))
        node: Any = params
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                break
        if not isinstance(node, dict) or last in node:
            raise ValueError(
                f"weights: got {name} beside a name that it contains or that contains it, "
                f"expected a tree; rename one of the two."
            )
        node[last] = leaf
    return params


def save_weights(path: str | Path, params: Params, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file, whole or not at all; one that is there is replaced.

    Dtypes are kept, bfloat16 too. Tied embeddings are stored once, as in ``params``.

    Args:
        path: the file.
        params: see `Params`; on this process whole.
        metadata: strings that `load_metadata` gives back.

    Raises:
        ValueError: leaves or metadata that the file cannot hold, or a place that cannot be
            written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = Path(path)
    _require_strings(metadata or {})
    # safetensors takes memory as it lies: a transposed view would be written in another order.
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in flatten(params).items()}
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.touch()
        mode = draft.stat().st_mode
        save_file(arrays, draft, metadata)
        # safetensors makes files for their owner alone, whatever the umask.
        draft.chmod(mode)
        draft.replace(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"weights: got {path}, which cannot be written ({error}), expected a file in a folder "
            f"that exists, and arrays of a dtype that safetensors holds."
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def load_weights(path: str | Path) -> Params:
    """What `save_weights` wrote, as NumPy arrays, bit by bit.

    They lie on the host, for `require_params` to check and the caller to place:
    ``nnx.update(model, jax.device_put(params))``.

    Raises:
        ValueError: no file, or not a whole safetensors file.
    """
    with open_safetensors(path) as file:
        return unflatten({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118


def load_metadata(path: str | Path) -> dict[str, str]:
    """The strings that `save_weights` was given; the arrays are not read.

    Raises:
        ValueError: no file, or not a whole safetensors file.
    """
    with open_safetensors(path) as file:
        return dict(file.metadata() or {})


def abstract_params(config: TransformerConfig) -> Params:
    """Shape and dtype of every parameter of a model; nothing is allocated."""
    abstract = nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0)))
    return nnx.to_pure_dict(nnx.state(abstract, nnx.Param))


def require_params(config: TransformerConfig, params: Params) -> None:
    """Refuse parameters that are not a model's own, leaf by leaf.

    Raises:
        ValueError: leaves that are missing, not the model's, or of another shape or dtype.
    """
    got, wanted = flatten(params), flatten(abstract_params(config))
    wrong = [
        f"{name} as {_kind(got[name])}, which is {_kind(wanted[name])} there"
        for name in wanted
        if name in got and _kind(got[name]) != _kind(wanted[name])
    ]
    found = {
        "without": [name for name in wanted if name not in got],
        "with": [name for name in got if name not in wanted],
        "with the leaf": wrong,
    }
    problems = [f"{kind} {listed(names)}" for kind, names in found.items() if names]
    if problems:
        raise ValueError(
            f"params: got weights {'; '.join(problems)}; expected those of the configuration; "
            f"give both of the same model."
        )


@contextlib.contextmanager
def open_safetensors(path: str | Path) -> Iterator[Any]:
    """A file of safetensors, read tensor by tensor; what is wrong with it is a ValueError."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise ValueError(f"weights: got no file {path}, expected a safetensors file.")
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"weights: got {path}, which cannot be read ({error}), expected a whole safetensors "
            f"file; copy or download it again."
        ) from error


def listed(names: list[str]) -> str:
    """Names for a message: the first few, and how many more."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _leaves(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            _require_key(key, prefix)
            yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))
    elif prefix and hasattr(tree, "shape") and _numeric(getattr(tree, "dtype", None)):
        yield prefix, tree
    else:
        raise ValueError(
            f"params: got {type(tree).__name__} at {prefix or 'the top'}, expected nested dicts of "
            f"arrays of numbers, none of them empty; take nnx.to_pure_dict(nnx.state(model, "
            f"nnx.Param))."
        )


def _require_key(key: Any, prefix: str) -> None:
    name = isinstance(key, str) and key and "." not in key and not key.isdecimal()
    if not name and not (type(key) is int and key >= 0):
        raise ValueError(
            f"params: got the key {key!r} at {prefix or 'the top'}, expected a name without a dot "
            f"that is no number, or an integer; rename it."
        )


def _numeric(dtype: Any) -> bool:
    return dtype is not None and any(jnp.issubdtype(dtype, kind) for kind in (np.number, np.bool_))


def _require_strings(metadata: dict[str, str]) -> None:
    for item in metadata.items():
        if not all(isinstance(part, str) for part in item):
            raise ValueError(
                f"metadata: got {item[0]!r}: {item[1]!r}, expected strings alone, which is all "
                f"the file holds; give json.dumps(value)."
            )


def _kind(leaf: Any) -> str:
    return f"{jnp.dtype(leaf.dtype).name}{list(leaf.shape)}"
