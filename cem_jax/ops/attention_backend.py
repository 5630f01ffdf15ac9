"""Which implementation computes the attention energy here, and why: the one switch."""

from __future__ import annotations

import functools
import importlib
import logging
from typing import Literal, NamedTuple, get_args

import jax

from cem_jax.ops.attention_kernel import Kernel
from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.visibility import Sites, Visible

AttentionBackend = Literal["auto", "reference", "blockwise", "pallas", "cudnn", "splash", "plain"]
"""``auto`` chooses; ``reference`` and ``blockwise`` are pure JAX and run anywhere; ``pallas``,
``cudnn`` and ``splash`` are kernels; ``plain`` is differentiated by JAX, with no custom rule."""

PURE: tuple[AttentionBackend, ...] = ("reference", "blockwise")
"""Backends that run on any platform and take every operand."""

NEVER_RUN: tuple[AttentionBackend, ...] = ("pallas", "cudnn", "splash")
"""Kernels that nobody has run on their hardware yet: tested by interpretation and by lowering, to
be asked for by name, and never chosen by ``auto``."""

_KERNELS = {
    "pallas": "cem_jax.ops.kernels.pallas_gpu",
    "cudnn": "cem_jax.ops.kernels.cudnn",
    "splash": "cem_jax.ops.kernels.splash",
}

_WHOLE = 256
"""Up to this many keys, whole rows of scores are as fast as blocks of them, and simpler."""

_log = logging.getLogger("cem_jax")


class Choice(NamedTuple):
    """A backend, and the reason in words."""

    backend: AttentionBackend
    reason: str


class Finding(NamedTuple):
    """What `survey` says of one backend.

    Attributes:
        backend: its name.
        refusal: why it cannot compute these operands here; None where it can.
        never_run: whether nobody has run it on its hardware yet.
    """

    backend: AttentionBackend
    refusal: str | None
    never_run: bool


def choose(
    requested: AttentionBackend, visible: Visible, terms: AttentionTerms, query: Sites, key: Sites
) -> Choice:
    """The backend that computes these operands; a kernel that cannot is replaced, and logged.

    Args:
        requested: the switch. A name is taken where it can be; ``"auto"`` is the reference for
            short rows of keys, and blockwise for longer ones.
        visible: the rule of visibility.
        terms: the operands, of which shapes and dtypes are looked at.
        query: positions and segments of the queries.
        key: those of the keys.

    Raises:
        ValueError: for an unknown name.
    """
    if requested == "auto":
        return _automatic(terms)
    reason = refusal(requested, visible, terms, query, key)
    if reason is None:
        return Choice(requested, "it was asked for")
    second = _automatic(terms)
    _warn(f"attention backend {requested!r} cannot be used: {reason} {second.backend!r} is.")
    return Choice(second.backend, f"{requested!r} cannot be used: {reason}")


def refusal(
    backend: AttentionBackend, visible: Visible, terms: AttentionTerms, query: Sites, key: Sites
) -> str | None:
    """Why a backend cannot compute these operands here, as a sentence; None where it can."""
    if backend not in get_args(AttentionBackend):
        known = get_args(AttentionBackend)
        raise ValueError(f"attention backend: got {backend!r}, expected one of {known}.")
    if backend not in _KERNELS:
        return None
    return kernel(backend).refusal(visible, terms, query, key)


def survey(visible: Visible, terms: AttentionTerms, query: Sites, key: Sites) -> list[Finding]:
    """What every backend says of these operands, in the order in which they are listed."""
    names = [name for name in get_args(AttentionBackend) if name != "auto"]
    return [
        Finding(name, refusal(name, visible, terms, query, key), name in NEVER_RUN)
        for name in names
    ]


@functools.cache
def kernel(backend: AttentionBackend) -> Kernel:
    """The record of a kernel; imported when it is asked for."""
    return importlib.import_module(_KERNELS[backend]).KERNEL


def _automatic(terms: AttentionTerms) -> Choice:
    keys = terms.key.shape[1]
    if keys <= _WHOLE:
        return Choice("reference", f"{keys} keys, no more than {_WHOLE}: whole rows of scores fit")
    platform = jax.default_backend()
    reason = f"{keys} keys, more than {_WHOLE}: in blocks, in linear memory"
    if platform != "cpu":
        reason += f"; the kernels for {platform} have never run, so they must be asked for"
    return Choice("blockwise", reason)


@functools.cache
def _warn(message: str) -> None:
    """Once for each message, however often it is traced."""
    _log.warning(message)
