import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cem_jax import MHAConfig, SwiGLUConfig, Transformer, TransformerConfig
from cem_jax.inference import Sampling, generate, make_next_token

GREEDY = Sampling(temperature=0.0)


@pytest.fixture(scope="module")
def tiny():
    config = TransformerConfig(40, 16, 1, MHAConfig(2), SwiGLUConfig(24))
    model = Transformer(config, rngs=nnx.Rngs(0))
    graph, state = nnx.split(model)
    return model, graph, nnx.to_pure_dict(state)


class Fixed(nnx.Module):
    """The same logits everywhere."""

    def __init__(self, logits):
        self.values = nnx.Param(jnp.asarray(logits, jnp.float32))

    def hidden(self, tokens, sites):
        return jnp.zeros((*tokens.shape, 1))

    def logits(self, hidden):
        return jnp.broadcast_to(self.values[...], (*hidden.shape[:2], len(self.values[...])))


def draws(logits, sampling, count=4000):
    graph, state = nnx.split(Fixed(logits))
    params, next_token = nnx.to_pure_dict(state), make_next_token(graph, sampling)
    window, keys = jnp.zeros(3, jnp.int32), jax.random.split(jax.random.key(0), count)
    drawn = jax.vmap(lambda key: next_token(params, window, jnp.int32(1), key))(keys)
    return np.bincount(drawn, minlength=len(logits)) / count


def test_greedy_text_is_the_argmax_of_the_whole_prefix_and_compiles_once(tiny):
    model, graph, params = tiny
    next_token = make_next_token(graph, GREEDY)
    window, count, prompt = 6, 12, [1, 7, 9]
    text = generate(next_token, params, prompt, count=count, window=window, sampling=GREEDY)
    assert len(text) == count
    assert len(set(text)) > 1
    pieces = prompt + text
    for index in range(len(prompt), len(pieces)):
        # Unpadded; from the window's end on it slides.
        seen = jnp.asarray(pieces[:index][-window:])
        if index in (3, 5, 6, 9, 14):
            assert int(jnp.argmax(model(seen[None])[0, -1])) == pieces[index]
    assert next_token._cache_size() == 1


def test_seeds_draw_texts_and_repeat_them(tiny):
    _, graph, params = tiny
    next_token = make_next_token(graph, Sampling())

    def text(seed):
        sampling = Sampling(seed=seed)
        return generate(next_token, params, [1], count=12, window=6, sampling=sampling)

    assert text(0) == text(0)
    assert text(0) != text(1)


def test_the_end_stops_the_text_and_is_not_in_it(tiny):
    _, graph, params = tiny
    next_token = make_next_token(graph, GREEDY)
    text = generate(next_token, params, [1, 7, 9], count=8, window=6, sampling=GREEDY)
    end = text[3]
    cut = generate(next_token, params, [1, 7, 9], count=8, window=6, end=end, sampling=GREEDY)
    assert cut == text[: text.index(end)]
    assert generate(next_token, params, [1], count=0, window=6, sampling=GREEDY) == []


def test_the_temperature_divides_the_logits():
    logits = np.array([0.0, 1.0, 2.0])
    for temperature in (1.0, 0.5):
        weights = np.exp(logits / temperature)
        drawn = draws(logits, Sampling(temperature=temperature, top_k=None))
        np.testing.assert_allclose(drawn, weights / weights.sum(), atol=0.03)


def test_top_k_draws_the_likeliest_only():
    drawn = draws([0.0, 3.0, 1.0, 2.9], Sampling(temperature=1.0, top_k=2))
    assert drawn[0] == drawn[2] == 0
    assert min(drawn[1], drawn[3]) > 0.4
    assert draws([0.0, 3.0, 1.0], Sampling(top_k=99))[0] > 0


def test_top_p_draws_the_fewest_that_reach_it():
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    for top_p, allowed in ((0.4, 1), (0.5, 1), (0.6, 2), (0.81, 3), (1.0, 4)):
        drawn = draws(logits, Sampling(temperature=1.0, top_k=None, top_p=top_p))
        assert (drawn > 0).tolist() == [index < allowed for index in range(4)]
    # At the temperature that is asked for: the flatter, the more are needed.
    hot = draws(logits, Sampling(temperature=100.0, top_k=None, top_p=0.6))
    assert (hot > 0).sum() == 3
    # Of what top_k leaves: 0.5 and 0.3 of 0.8 are 0.625 and 0.375.
    both = draws(logits, Sampling(temperature=1.0, top_k=2, top_p=0.62))
    assert (both > 0).tolist() == [True, False, False, False]


def test_pieces_beyond_the_tokenizer_are_never_drawn():
    graph, state = nnx.split(Fixed([0.0, 0.0, 50.0]))
    for sampling in (GREEDY, Sampling()):
        next_token = make_next_token(graph, sampling, vocab_size=2)
        window, key = jnp.zeros(3, jnp.int32), jax.random.key(0)
        assert next_token(nnx.to_pure_dict(state), window, jnp.int32(1), key) < 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_p": 0.0}, r"top_p: got 0.0, expected a number in \(0, 1\]"),
        ({"top_p": 1.5}, "top_p: got 1.5"),
        ({"temperature": -1.0}, "temperature: got -1.0, expected a number >= 0"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"top_k": 0}, "top_k: got 0, expected at least 1"),
        ({"seed": -1}, "seed: got -1"),
    ],
)
def test_impossible_sampling_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**options)


def test_impossible_requests_are_refused(tiny):
    _, graph, params = tiny
    next_token = make_next_token(graph, GREEDY)
    with pytest.raises(ValueError, match="prompt: got no piece"):
        generate(next_token, params, [], count=1, window=6, sampling=GREEDY)
    with pytest.raises(ValueError, match="got -1 and 6"):
        generate(next_token, params, [1], count=-1, window=6, sampling=GREEDY)
