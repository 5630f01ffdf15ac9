import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax.training import Hooks, NonFiniteError, StoppedError, TrainingConfig, train

config = TrainingConfig(steps=7, record_every=2, evaluate_every=3, save_every=100)


def fake_step(bad=None, name="loss"):
    """Counts; says something that is no number at step ``bad``, from 0."""

    def step(state, batch):
        metrics = {"loss": 1.0 * batch, "tokens": 5.0, "gradient_norm": 1.0}
        if bad is not None and batch >= bad:
            metrics[name] = float("nan")
        metrics = {key: jnp.float32(value) for key, value in metrics.items()}
        return {"params": {"w": batch}, "step": state["step"] + 1}, metrics

    return step


def log_of(bad=None, name="loss", start=0, stop=None, config=config):
    log = []
    hooks = Hooks(
        record=lambda records: log.append(("record", [record["step"] for record in records])),
        evaluate=lambda params: {"valid_loss": params["w"]},
        evaluated=lambda step, figures: log.append(("evaluated", step, figures["valid_loss"])),
        sample=lambda step, params: log.append(("sample", step)),
        save=lambda state, figures: log.append(("save", int(state["step"]), figures)),
        stop=stop,
    )
    try:
        train({"step": jnp.int32(start)}, fake_step(bad, name), lambda index: index, config, hooks)
    except (NonFiniteError, StoppedError) as error:
        log.append(str(error))
    return log


def test_every_step_is_recorded_once_and_the_end_is_evaluated_and_saved():
    log = log_of()
    recorded = [step for kind, *rest in log if kind == "record" for step in rest[0]]
    assert recorded == [1, 2, 3, 4, 5, 6, 7]
    # A state of `step` steps has seen the batches 0 .. step - 1.
    assert [entry[1:] for entry in log if entry[0] == "evaluated"] == [(3, 2), (6, 5), (7, 6)]
    # A state is saved with its own figures.
    saves = [entry[1:] for entry in log if entry[0] == "save"]
    assert saves == [(step, {"valid_loss": step - 1}) for step in (3, 6, 7)]
    assert [entry[1] for entry in log if entry[0] == "sample"] == [3, 6, 7]


def test_a_state_goes_on_where_it_stopped():
    log = log_of(start=5)
    assert [step for kind, *rest in log if kind == "record" for step in rest[0]] == [6, 7]
    assert log_of(start=7) == []


def test_a_state_whose_figures_are_not_finite_is_not_saved():
    saved = []
    hooks = Hooks(
        evaluate=lambda params: {"valid_loss": float("nan" if params["w"] >= 5 else 1.0)},
        save=lambda state, figures: saved.append(int(state["step"])),
    )
    with pytest.raises(NonFiniteError, match="valid_loss: got nan at step 6"):
        train({"step": jnp.int32(0)}, fake_step(), lambda index: index, config, hooks)
    assert saved == [3]


def test_states_between_evaluations_are_saved_without_figures_once_their_losses_are_known():
    often = dataclasses.replace(config, save_every=2)
    log = log_of(config=often)
    saves = [entry[1:] for entry in log if entry[0] == "save"]
    assert [step for step, figures in saves if not figures] == [2, 4]
    assert [step for step, figures in saves if figures] == [3, 6, 7]
    # Step 4 goes wrong and is one that would be saved.
    *log, message = log_of(bad=3, config=often)
    assert message.startswith("loss: got nan at step 4")
    assert [entry[1] for entry in log if entry[0] == "save"] == [2, 3]


def test_whoever_asks_to_stop_is_obeyed_after_the_step_and_its_state_is_saved():
    asked = iter([False, False, False, False, True])
    *log, message = log_of(stop=lambda: next(asked))
    assert message == "stopped after step 5"
    assert [step for kind, *rest in log if kind == "record" for step in rest[0]] == [1, 2, 3, 4, 5]
    assert log[-1] == ("save", 5, {})


@pytest.mark.parametrize("step", [3, 7])
def test_a_stop_where_it_would_be_evaluated_is_evaluated_first(step):
    """A run that goes on from there would never come back to it."""
    *log, message = log_of(stop=lambda: True, start=step - 1)
    assert message == f"stopped after step {step}"
    kinds = [kind for kind, *rest in log]
    assert kinds == ["record", "evaluated", "sample", "save"]
    assert log[-1] == ("save", step, {"valid_loss": step - 1})


def test_parameters_that_are_not_finite_are_not_saved():
    saved = []

    def step(state, batch):
        state, metrics = fake_step()(state, batch)
        weight = jnp.float32(jnp.inf if batch >= 4 else 1.0)
        return {**state, "params": {"w": weight}}, metrics

    hooks = Hooks(save=lambda state, figures: saved.append(int(state["step"])))
    with pytest.raises(NonFiniteError, match="parameters: got some that are not finite") as raised:
        train({"step": jnp.int32(0)}, step, lambda index: index, config, hooks)
    assert saved == [3]
    assert raised.value.suspect is None


def test_the_state_that_a_bad_loss_was_of_is_the_suspect():
    with pytest.raises(NonFiniteError) as raised:
        train({"step": jnp.int32(0)}, fake_step(4), lambda index: index, config)
    assert (raised.value.step, raised.value.suspect) == (5, 4)


def test_the_clock_goes_on_where_it_stood():
    records = []
    train(
        {"step": jnp.int32(0)},
        fake_step(),
        lambda index: index,
        config,
        Hooks(records.extend),
        seconds=1000.0,
    )
    assert all(record["seconds"] >= 1000 for record in records)


@pytest.mark.parametrize("name", ["loss", "gradient_norm"])
def test_what_is_not_finite_stops_at_its_step_and_is_not_saved(name):
    *log, message = log_of(bad=4, name=name)
    assert message.startswith(f"{name}: got nan at step 5")
    assert "checkpoints from before it are kept" in message
    # What was finite is told, up to the step before.
    assert [step for kind, *rest in log if kind == "record" for step in rest[0]] == [1, 2, 3, 4]
    assert [entry[1] for entry in log if entry[0] == "save"] == [3]
    # Not even where the step that went wrong is the one that would be saved.
    *log, _ = log_of(bad=5, name=name)
    assert [entry[1] for entry in log if entry[0] == "save"] == [3]


def test_the_loop_trains_a_model_without_hooks_and_twice_the_same(tiny):
    first, second = (
        train(tiny.state(), tiny.step, tiny.batches.batch, tiny.config) for _ in range(2)
    )
    assert int(first["step"]) == tiny.config.steps
    jax.tree.map(np.testing.assert_array_equal, first, second)
