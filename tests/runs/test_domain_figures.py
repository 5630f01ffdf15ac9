"""Bits per byte of the domains of a text, which make up those of the whole."""

import io
import math

import numpy as np
import pytest
import slimpajama
from flax import nnx
from rich.console import Console

from cem_jax import Transformer, TransformerConfig
from cem_jax.data.prepared import PrepareConfig, prepare
from cem_jax.evaluation.domains import by_domain
from cem_jax.evaluation.perplexity import make_row_nats, total_nats
from cem_jax.runs import figures
from cem_jax.runs.config import DataConfig
from cem_jax.runs.report import table
from cem_jax.runs.text import Text

pytest.importorskip("zstandard", reason="zstandard is not installed (extra zstd)")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    root, out = tmp_path_factory.mktemp("slim"), tmp_path_factory.mktemp("out")
    slimpajama.write(root)
    prepare(PrepareConfig(str(root), "byte", 16), out)
    return Text.prepare(DataConfig(str(out), str(out / "tokenizer")), 16)


@pytest.fixture(scope="module")
def model():
    config = TransformerConfig.micro("llama", vocab_size=259)
    graph, state = nnx.split(Transformer(config, rngs=nnx.Rngs(0)), nnx.Param)
    return make_row_nats(graph), nnx.to_pure_dict(state)


def by_hand(params, batch, labels, count):
    """Each target costs as many nats as its number says."""
    nats = np.where(batch.mask, batch.targets, 0)
    return np.stack([np.where(labels == n, nats, 0).sum(axis=1) for n in range(count)], axis=1)


@pytest.mark.parametrize("batch", [1, 8])
def test_bits_per_byte_of_each_domain_by_hand(text, batch):
    rows, domains = text.rows["valid"], domains_of(text, "valid")
    found = by_domain(by_hand, {}, rows, domains, batch=batch)
    whole = rows.batch(slice(None))
    labels = domains.of_targets(slice(None))
    bits = found.bits_per_byte(domains)
    assert sorted(bits) == sorted(slimpajama.DOMAINS)
    for number, (name, counts) in enumerate(domains.counts.items()):
        targets = whole.targets[whole.mask & (labels == number)]
        assert found.tokens[name] == counts.targets == len(targets)
        # One target for each byte and one for the end of each document.
        assert counts.targets == counts.bytes + counts.documents
        assert bits[name] == pytest.approx(targets.sum() / math.log(2) / counts.bytes)


def domains_of(text, split):
    (part,) = text.parts(split).values()
    return part.domains


def test_the_domains_of_a_model_make_up_the_whole(text, model):
    row_nats, params = model
    reached = figures.split_figures(row_nats, params, text)
    for split in ("valid", "test"):
        counts = domains_of(text, split).counts
        apart = {name: reached[f"{split}_bits_per_byte/{name}"] for name in counts}
        size = text.utf8_bytes(split)
        weighted = sum(apart[name] * counts[name].bytes for name in counts) / size
        assert weighted == pytest.approx(reached[f"{split}_bits_per_byte"], rel=1e-12)
        nats, tokens = total_nats(row_nats, params, text.rows[split], batch=8)
        assert reached[f"{split}_loss"] == pytest.approx(nats / tokens, rel=1e-6)
        assert len({round(value, 6) for value in apart.values()}) == len(apart)
    printed = io.StringIO()
    Console(file=printed, width=120).print(table([{"name": "a", **reached}], "t"))
    book = reached["test_bits_per_byte/RedPajamaBook"]
    assert any(
        "test bits per byte, RedPajamaBook" in line and f"{book:.4f}" in line
        for line in printed.getvalue().splitlines()
    )


def test_a_source_of_a_mixture_has_its_domains(text, model, tmp_path):
    row_nats, params = model
    (tmp_path / "plain.txt").write_text("\x1e".join(f"document {n} of text" for n in range(90)))
    prepare(PrepareConfig(str(tmp_path / "plain.txt"), "byte", 16), tmp_path / "plain")
    tables = (
        f'[{name}]\nfolder = "{folder}"\nweight = 1.0\n'
        for name, folder in (("plain", "plain"), ("slim", text.corpus.folder))
    )
    (tmp_path / "m.toml").write_text("".join(tables))
    mixed = Text.prepare(
        DataConfig(str(tmp_path / "m.toml"), str(tmp_path / "plain/tokenizer")), 16
    )
    one = figures.split_figures(row_nats, params, text, ("valid",))
    both = figures.split_figures(row_nats, params, mixed, ("valid",))
    seen = figures.make_glance(row_nats, mixed)(params)
    of_one = {key: value for key, value in one.items() if "/" in key}
    assert len(of_one) == len(slimpajama.DOMAINS)
    for key, value in of_one.items():
        name = key.replace("/", "/slim/")
        assert both[name] == seen[name] == value
    assert sum("/" in key for key in both) == len(of_one)
    assert seen["valid_bits_per_byte/slim"] == pytest.approx(one["valid_bits_per_byte"], rel=1e-12)
    assert "valid_bits_per_byte/plain" in seen


def test_a_glance_has_the_domains_of_its_rows(text, model, monkeypatch):
    row_nats, params = model
    full = figures.split_figures(row_nats, params, text, ("valid",))
    seen = figures.make_glance(row_nats, text)(params)
    names = [f"valid_bits_per_byte/{name}" for name in domains_of(text, "valid").counts]
    assert {name: seen[name] for name in names} == {name: full[name] for name in names}
    # Of part of the rows: as if the other tokens of a domain cost the same.
    monkeypatch.setattr(figures, "GLANCE", 300)
    part = figures.make_glance(row_nats, text)(params)
    assert part["valid_tokens"] < seen["valid_tokens"] / 2
    for name in names:
        assert part[name] == pytest.approx(full[name], rel=0.2)
        assert part[name] != full[name]


def test_text_without_domains_has_figures_of_the_whole_alone(own_text, model):
    row_nats, params = model
    text = Text.prepare(DataConfig(str(own_text), "byte"), 16)
    seen = figures.make_glance(row_nats, text)(params)
    assert list(seen) == ["valid_loss", "valid_tokens", "valid_bits_per_byte"]
    full = figures.split_figures(row_nats, params, text)
    assert not any("/" in name for name in full)
    assert seen["valid_bits_per_byte"] == pytest.approx(full["valid_bits_per_byte"], rel=1e-12)


def test_rows_of_several_devices_are_evaluated_in_multiples_of_them(text, model, monkeypatch):
    row_nats, params = model
    sizes = set()

    def seen(params, batch, labels, count):
        sizes.add(len(batch.mask))
        return row_nats(params, batch, labels, count=count)

    eight = figures.split_figures(seen, params, text, ("valid",), 8)
    assert {size % 8 for size in sizes} == {0}
    one = figures.split_figures(row_nats, params, text, ("valid",))
    assert eight["valid_loss"] == pytest.approx(one["valid_loss"], rel=1e-6)
    few = text.rows["valid"]
    alone = figures.EVALUATED // 16
    assert len(few) < 8 * alone
    assert figures.evaluated_rows(few, 8) == alone
    assert figures.evaluated_rows(few, 3 * alone) == 3 * alone
    monkeypatch.setattr(figures, "EVALUATED", 32)
    assert figures.evaluated_rows(few, 8) == 16


def test_names_are_shown_as_they_are_called():
    by_source = {"[/source]": {"test_loss": 2.3456, "test_bits_per_byte": 3.4567}}
    summary = {
        "name": "[/run]",
        "test_bits_per_byte/[/domain]": 1.2345,
        "test_by_source": by_source,
    }
    printed = io.StringIO()
    Console(file=printed, width=120).print(table([summary], "[/title]"))
    shown = printed.getvalue()
    for words in ("[/title]", "[/run]", "per byte, [/domain]", "[/source], test loss"):
        assert words in shown
