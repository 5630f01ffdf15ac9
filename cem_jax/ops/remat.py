"""What a training derivative keeps of a computation, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import jax

from cem_jax.ops.checks import require_one_of
from cem_jax.ops.contract import NAME

Remat = Literal["none", "products", "full"]
"""``none`` keeps every intermediate; ``products`` those of products with weights, and computes
attention and element-wise work again; ``full`` keeps the arguments alone."""


def require_remat(name: str, policy: Any) -> None:
    """Refuse what is no name of a policy."""
    require_one_of(name, policy, get_args(Remat))


def rematerialised(function: Callable[..., Any], policy: Remat) -> Callable[..., Any]:
    """The same function, of which the training derivative keeps what the policy says.

    Args:
        function: pure, of arrays.
        policy: see `Remat`.

    Raises:
        ValueError: for an unknown policy.
    """
    require_remat("remat", policy)
    if policy == "none":
        return function
    saved = _is_product if policy == "products" else None
    return jax.checkpoint(function, policy=saved)


def _is_product(primitive: Any, *_: Any, **params: Any) -> bool:
    """A product without batch axes, which is one with weights."""
    if primitive.name == "dot_general":
        return not params["dimension_numbers"][1][0]
    return primitive.name == NAME
