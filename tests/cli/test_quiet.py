"""What libraries say beside what they raise."""

import gc
import sys

import pytest

from cem_jax.cli.quiet import quiet

FAILS = """
import types

@types.coroutine
def waits():
    yield

async def reads():
    try:
        await waits()
    finally:
        raise OSError("Encountered error while reading array index")
"""


@pytest.mark.parametrize(
    ("file", "said"),
    [("/env/site-packages/orbax/checkpoint/reading.py", 0), ("/home/user/orbax_like.py", 1)],
)
def test_a_read_of_orbax_that_was_given_up_says_nothing(file, said, monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    quiet()
    names = {}
    exec(compile(FAILS, file, "exec"), names)
    coroutine = names["reads"]()
    coroutine.send(None)
    del coroutine
    gc.collect()
    assert len(heard) == said
