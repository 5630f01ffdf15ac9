import pytest

from cem_jax.cli.main import main


def generated(trained, capsys, *options):
    assert main(["generate", str(trained.path), "The state", "--tokens", "6", *options]) == 0
    return capsys.readouterr().out


def test_a_text_begins_with_its_prompt_and_repeats_with_its_seed(trained, capsys):
    text = generated(trained, capsys)
    assert text.startswith("The state")
    assert len(text) > len("The state\n")
    assert generated(trained, capsys) == text
    assert generated(trained, capsys, "--seed", "1") != text


def test_samples_are_numbered_by_their_seeds(trained, capsys):
    one = generated(trained, capsys, "--seed", "5")
    assert generated(trained, capsys, "--seed", "4", "--samples", "2").endswith(
        f"=== seed 5\n{one}"
    )


def test_the_likeliest_text_needs_no_seed(trained, capsys):
    greedy = generated(trained, capsys, "--temperature", "0")
    assert greedy == generated(trained, capsys, "--top-k", "1", "--seed", "7")
    assert greedy == generated(trained, capsys, "--top-p", "1e-9", "--seed", "8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--temperature", "-1"], "temperature: got -1.0"),
        (["--top-k", "0"], "top_k: got 0"),
        (["--top-p", "0"], "top_p: got 0.0"),
        (["--tokens", "0"], "tokens: got 0"),
        (["--samples", "0"], "samples: got 0"),
    ],
)
def test_impossible_sampling_is_refused(trained, options, message, capsys):
    assert main(["generate", str(trained.path), "x", *options]) == 2
    assert message in capsys.readouterr().err


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        main(["generate", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in ("--temperature", "--top-p", "The same seed draws the same text"):
        assert words in text
