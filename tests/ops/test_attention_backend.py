"""The one switch: what it chooses, why, and what happens where a backend cannot."""

import logging

import jax.numpy as jnp
import pytest
from operands import PACKED, terms

from cem_jax import InteractionConfig, Sites, Visible
from cem_jax.energies.interaction import InteractionEnergy
from cem_jax.ops import attention_backend, attention_blockwise
from cem_jax.ops.attention_backend import NEVER_RUN, choose, refusal, survey
from cem_jax.ops.attention_energy import attention_energy
from cem_jax.ops.attention_kernel import Kernel
from cem_jax.ops.attention_tangent import cotangents
from cem_jax.ops.attention_terms import AttentionTerms

PICKY = Kernel(
    "pallas",
    lambda visible, terms, query, key: (
        "it knows no diagonal." if terms.weight is not None else None
    ),
    attention_blockwise.attended,
    cotangents,
)


@pytest.fixture
def picky(monkeypatch):
    """A kernel that can be used here, if there is no diagonal."""
    monkeypatch.setattr(attention_backend, "kernel", lambda backend: PICKY)
    attention_backend._warn.cache_clear()


def long_keys(keys):
    query = jnp.zeros((1, 1, 2, 4))
    made = AttentionTerms(query, jnp.zeros((1, keys, 2, 4)), jnp.float32(1.0))
    return Visible(), made, Sites.dense(1, 1), Sites.dense(1, keys)


def test_auto_takes_whole_rows_while_they_are_short():
    assert choose("auto", *long_keys(256)).backend == "reference"
    found = choose("auto", *long_keys(257))
    assert found.backend == "blockwise"
    assert "257 keys" in found.reason


@pytest.mark.parametrize("keys", [4, 4096])
def test_auto_never_takes_what_has_never_run(keys, monkeypatch):
    monkeypatch.setattr(attention_backend.jax, "default_backend", lambda: "gpu")
    assert choose("auto", *long_keys(keys)).backend not in NEVER_RUN


def test_a_kernel_that_can_is_taken_when_asked_for(picky):
    assert choose("pallas", Visible(), terms(full=False), PACKED, PACKED).backend == "pallas"


def test_a_kernel_that_cannot_is_replaced_and_logged_once(picky, caplog):
    with caplog.at_level(logging.WARNING, "cem_jax"):
        for _ in range(2):
            found = choose("pallas", Visible(), terms("shared"), PACKED, PACKED)
    assert found.backend == "reference"
    assert [record.getMessage() for record in caplog.records] == [
        "attention backend 'pallas' cannot be used: it knows no diagonal. 'reference' is."
    ]


def test_the_function_itself_refuses(picky, hook_off):
    with pytest.raises(ValueError, match=r"got 'pallas'.*it knows no diagonal\..*'auto'"):
        attention_energy(terms("shared"), PACKED, PACKED, Visible(), "pallas")
    with pytest.raises(ValueError, match="got 'xla', expected one of"):
        attention_energy(terms(), PACKED, PACKED, Visible(), "xla")


def test_the_survey_names_every_backend(picky):
    found = {row.backend: row for row in survey(Visible(), terms("shared"), PACKED, PACKED)}
    assert set(found) == {"reference", "blockwise", "pallas", "cudnn", "splash", "plain"}
    assert found["pallas"].refusal == "it knows no diagonal."
    assert {name for name, row in found.items() if row.never_run} == set(NEVER_RUN)
    assert found["blockwise"].refusal is None


def test_an_energy_takes_what_the_switch_says(monkeypatch):
    from flax import nnx

    seen = []
    monkeypatch.setattr(
        "cem_jax.energies.interaction.attention_energy",
        lambda terms, query, key, visible, backend: seen.append(backend) or jnp.zeros((1, 300)),
    )
    energy = InteractionEnergy(8, InteractionConfig(2), rngs=nnx.Rngs(0))
    c = jnp.ones((1, 300, 8))
    energy(c, energy.condition(c, Sites.dense(1, 300)))
    assert seen == ["blockwise"]


def test_refusal_is_none_for_what_runs_anywhere():
    for backend in ("reference", "blockwise", "plain"):
        assert refusal(backend, *long_keys(4)) is None
