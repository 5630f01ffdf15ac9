import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax.training import Hooks, NonFiniteError, TrainingConfig, train
from cem_jax.training.config import OptimiserConfig

config = TrainingConfig(
    steps=7, record_every=2, evaluate_every=3, optimiser=OptimiserConfig(warmup=1)
)


def fake_step(bad=None, name="loss"):
    """Counts; says something that is no number at step ``bad``, from 0."""

    def step(state, batch):
        metrics = {"loss": 1.0 * batch, "tokens": 5.0, "gradient_norm": 1.0}
        if bad is not None and batch >= bad:
            metrics[name] = float("nan")
        metrics = {key: jnp.float32(value) for key, value in metrics.items()}
        return {"params": {"w": batch}, "step": state["step"] + 1}, metrics

    return step


def log_of(bad=None, name="loss", start=0):
    log = []
    hooks = Hooks(
        record=lambda records: log.append(("record", [record["step"] for record in records])),
        evaluate=lambda params: {"valid_loss": params["w"]},
        evaluated=lambda step, figures: log.append(("evaluated", step, figures["valid_loss"])),
        sample=lambda step, params: log.append(("sample", step)),
        save=lambda step, state: log.append(("save", step, int(state["step"]))),
    )
    try:
        train({"step": jnp.int32(start)}, fake_step(bad, name), lambda index: index, config, hooks)
    except NonFiniteError as error:
        log.append(str(error))
    return log


def test_every_step_is_recorded_once_and_the_end_is_evaluated_and_saved():
    log = log_of()
    recorded = [step for kind, *rest in log if kind == "record" for step in rest[0]]
    assert recorded == [1, 2, 3, 4, 5, 6, 7]
    # A state of `step` steps has seen the batches 0 .. step - 1.
    assert [entry[1:] for entry in log if entry[0] == "evaluated"] == [(3, 2), (6, 5), (7, 6)]
    assert [entry[1:] for entry in log if entry[0] == "save"] == [(3, 3), (6, 6), (7, 7)]
    assert [entry[1] for entry in log if entry[0] == "sample"] == [3, 6, 7]


def test_a_state_goes_on_where_it_stopped():
    log = log_of(start=5)
    assert [step for kind, *rest in log if kind == "record" for step in rest[0]] == [6, 7]
    assert log_of(start=7) == []


def test_a_state_whose_figures_are_not_finite_is_not_saved():
    saved = []
    hooks = Hooks(
        evaluate=lambda params: {"valid_loss": float("nan" if params["w"] >= 5 else 1.0)},
        save=lambda step, state: saved.append(step),
    )
    with pytest.raises(NonFiniteError, match="valid_loss: got nan at step 6"):
        train({"step": jnp.int32(0)}, fake_step(), lambda index: index, config, hooks)
    assert saved == [3]


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
