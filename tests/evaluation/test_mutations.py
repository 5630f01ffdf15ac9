"""A certificate is worth what it refuses: each fault put into the package must make it fail."""

import jax
import jax.numpy as jnp
import optax
import pytest

from cem_jax import ContextScoreConfig, DescentConfig, ElementwiseConfig, InteractionConfig, Rotary
from cem_jax.descent import PreconditionerConfig, StepSizeConfig
from cem_jax.descent.preconditioner import Preconditioner
from cem_jax.energies import interaction
from cem_jax.evaluation.certificate import certify as certify_module
from cem_jax.evaluation.certificate.cases import Case
from cem_jax.evaluation.certificate.certify import certify
from cem_jax.evaluation.certificate.potential_rows import potential_rows
from cem_jax.models import CEMLayer
from cem_jax.ops import attention_energy, attention_reference, potentials
from cem_jax.ops.attention_energy import with_given_derivative
from cem_jax.ops.attention_terms import Attended, energy_of
from cem_jax.ops.visibility import Visible

ATTENTION = Case(
    "attention",
    InteractionConfig(
        heads=4,
        key_heads=2,
        head_dim=6,
        diagonal="head",
        rotary=Rotary(base=100.0),
        learn_temperature=True,
        relative_bias=3,
        context_score=ContextScoreConfig(2),
    ),
    DescentConfig(
        2, "default", StepSizeConfig(0.3), PreconditionerConfig(2, learn="step"), momentum=0.4
    ),
)
MLP = Case("mlp", ElementwiseConfig(6), DescentConfig(2, "exact", StepSizeConfig(0.3)))


@pytest.fixture(autouse=True)
def _hand_once(monkeypatch):
    """No fault reaches the column written by hand: it is computed once for all of them."""
    measure = certify_module.measure

    def once(column, problem, **options):
        if column.slope is None:
            return measure(column, problem, **options)
        key = tuple(problem.parameters["energy"])
        if key not in BY_HAND:
            BY_HAND[key] = measure(column, problem, **options)
        return BY_HAND[key]

    monkeypatch.setattr(certify_module, "measure", once)


BY_HAND = {}


def _failed(case):
    """The comparisons that the certificate refuses, in float64."""
    return {row.comparison for row in certify(case, ("float64",)) if not row.passed}


A_C = "A = C"
B_A, B_C = (
    {f"B ({name}/given) = {other}" for name in ("reference", "blockwise")} for other in "AC"
)
GIVEN = {name for name in B_A | B_C if "reference" in name}
"""What fails where only the given derivative of the reference backend is wrong."""
BOTH = {A_C, *B_C}
"""What fails where the energy itself is another: A and B then agree in error."""


@pytest.mark.slow
@pytest.mark.parametrize("case", [ATTENTION, MLP], ids=lambda case: case.name)
def test_the_package_as_it_is_passes(case):
    assert _failed(case) == set()


def _replaced(m, attended, smooth):
    """The reference backend with another pass in its given derivative."""
    given, wrong = attention_energy._given, with_given_derivative(attended, smooth)
    m.setattr(attention_energy, "_given", lambda b: wrong if b == "reference" else given(b))


def _attend(change):
    """The readout and mean of the reference backend, changed; the energy is what it was."""

    def attended(visible, terms, *sites):
        right = attention_reference.attended(visible, terms, *sites)
        return change(right, lambda t: attention_reference.attended(visible, t, *sites), terms)

    return lambda m: _replaced(m, attended, attention_reference.attended)


def _constant(name):
    """A rule that forgets the tangent of one operand: the value alone is right."""

    def attended(visible, terms, *sites):
        held = terms._replace(**{name: jax.lax.stop_gradient(getattr(terms, name))})
        return attention_reference.attended(visible, held, *sites)

    return lambda m: _replaced(m, attention_reference.attended, attended)


def _no_turning_back(m):
    rotate = interaction.rotate

    def forwards(x, table):
        return x + jax.lax.stop_gradient(rotate(x, table) - x)

    m.setattr(interaction, "rotate", forwards)


def _energy_without_temperature(m):
    def without(terms, log_sum):
        return energy_of(terms, log_sum) / terms.temperature.astype(log_sum.dtype)

    for module in (attention_reference, attention_energy):
        m.setattr(module, "energy_of", without)


def _future(m):
    allowed = Visible.allowed
    m.setattr(Visible, "allowed", lambda self, *sites: allowed(Visible(causal=False), *sites))


def _next_document(m):
    def one_document(sites):
        return sites._replace(segment=jnp.minimum(sites.segment, 1))

    allowed = Visible.allowed
    m.setattr(Visible, "allowed", lambda self, *sites: allowed(self, *map(one_document, sites)))


def _context_held(m):
    condition = interaction.InteractionEnergy.condition
    m.setattr(
        interaction.InteractionEnergy,
        "condition",
        lambda self, c, sites: condition(self, jax.lax.stop_gradient(c), sites),
    )


def _half_of_p(m):
    def half(self, gradient, step=0):
        d, u, v = self.factors(step)
        return jnp.logaddexp(d, 0) * gradient + u @ (gradient @ v)

    m.setattr(Preconditioner, "__call__", half)


def _first_p(m):
    right = Preconditioner.factors
    m.setattr(Preconditioner, "factors", lambda self, step=0: right(self, 0))


def _no_momentum(m):
    m.setattr("cem_jax.models.layer.optax.trace", lambda beta: optax.identity())


def _norm_without_gain_in_context(m):
    mode = CEMLayer._mode

    def wrong(self, value, h, c):
        start, energy, at = mode(self, value, h, c)
        return start, energy, lambda x: at(x) / self.norm.gain[...][None, None]

    m.setattr(CEMLayer, "_mode", wrong)


FAULTS = {
    "wrong sign": (_attend(lambda right, *_: _negative(right)), GIVEN),
    "temperature missing in the given derivative": (
        _attend(lambda right, attend, terms: _read(right, attend(_hot(terms)))),
        GIVEN,
    ),
    "dw dropped": (_attend(lambda right, *_: _no_mean(right)), GIVEN),
    "dk dropped": (_constant("key"), GIVEN),
    "dc dropped": (_constant("context"), GIVEN),
    "dbias dropped": (_constant("bias"), GIVEN),
    "dtau dropped": (_constant("temperature"), GIVEN),
    "temperature missing in the energy": (_energy_without_temperature, B_A | BOTH),
    "un-rotation missing": (_no_turning_back, BOTH),
    "the future is visible": (_future, BOTH),
    "the other document is visible": (_next_document, BOTH),
    "the context is constant in training": (_context_held, BOTH),
    "P without its transpose": (_half_of_p, BOTH),
    "the first P for every step": (_first_p, BOTH),
    "momentum forgotten": (_no_momentum, BOTH),
    "gain not shared": (_norm_without_gain_in_context, BOTH),
}


def _negative(right):
    return Attended(right.log_sum, -right.readout, -right.mean)


def _read(right, other):
    return Attended(right.log_sum, other.readout, other.mean)


def _hot(terms):
    return terms._replace(temperature=jnp.ones_like(terms.temperature))


def _no_mean(right):
    return right._replace(mean=jnp.zeros_like(right.mean))


FAST = ("wrong sign", "dk dropped", "the future is visible", "temperature missing in the energy")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [f if f in FAST else pytest.param(f, marks=pytest.mark.slow) for f in FAULTS]
)
def test_a_fault_in_attention_is_refused(name, monkeypatch):
    fault, expected = FAULTS[name]
    fault(monkeypatch)
    assert _failed(ATTENTION) == expected


def test_a_wrong_given_activation_is_refused(monkeypatch):
    monkeypatch.setitem(potentials._PHI, "silu", lambda z: jax.nn.sigmoid(z))
    assert _failed(MLP) == GIVEN
    rows = potential_rows(("silu",))
    failed = {row.comparison: row.worst for row in rows if not row.passed}
    assert failed == {
        "B (given) = A, |z| <= 12": "derivative",
        "B = C (differences), |z| <= 40": "derivative",
        "B = C (quadrature)": "derivative",
    }


def test_a_wrong_potential_is_refused(monkeypatch):
    right = potentials._POTENTIAL["silu"]
    monkeypatch.setitem(potentials._POTENTIAL, "silu", lambda z: 0.99 * right(z))
    assert _failed(MLP) >= {A_C, *(B_A & GIVEN)}


def test_a_custom_rule_under_plain_is_refused(monkeypatch):
    right = jax.custom_jvp(potentials._POTENTIAL["silu"])
    right.defjvp(lambda z, dz: (right(*z), z[0] * jax.lax.logistic(z[0]) * dz[0]))
    monkeypatch.setitem(potentials._POTENTIAL, "silu", right)
    assert "A has no custom rule" in _failed(MLP)
