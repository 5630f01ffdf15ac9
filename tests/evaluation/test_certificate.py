"""The parts of the certificate: cases that cover, errors that tell, differences that converge."""

import itertools

import jax
import numpy as np
import pytest

from cem_jax import (
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    MemoryConfig,
    SumConfig,
    Visible,
)
from cem_jax.evaluation.certificate import cases as catalogues
from cem_jax.evaluation.certificate.cases import Case, catalogue
from cem_jax.evaluation.certificate.certify import certify, compare
from cem_jax.evaluation.certificate.finite_differences import central_difference
from cem_jax.evaluation.certificate.hand_forms import hand_form
from cem_jax.evaluation.certificate.jaxprs import custom_rules, scan_lengths
from cem_jax.evaluation.certificate.pairwise import covering
from cem_jax.evaluation.certificate.tolerances import TOLERANCE, relative_error


@pytest.mark.parametrize("full", [False, True])
def test_the_catalogue_covers_every_option_or_every_pair(full):
    factors = {**catalogues._ATTENTION, **catalogues._DESCENT}
    rows = covering(factors, 2 if full else 1, catalogues._sensible)
    for names in itertools.combinations(factors, 2 if full else 1):
        for values in itertools.product(*(factors[name] for name in names)):
            wanted = dict(zip(names, values, strict=True))
            held = any(wanted.items() <= row.items() for row in rows)
            assert held or not catalogues._sensible(wanted)


def test_the_catalogue_holds_every_energy_and_every_depth():
    cases = catalogue(True)
    assert all(hand_form(case.energy) for case in cases)
    for kind in (InteractionConfig, ElementwiseConfig, MemoryConfig, SumConfig):
        own = [case.descent for case in cases if isinstance(case.energy, kind)]
        assert {descent.steps for descent in own} == {1, 2, 3}
        assert {descent.norm_mode for descent in own} == {"default", "exact", "once", "none"}
    assert len({case.name for case in cases}) == len(cases)


def test_the_hand_form_takes_rows_that_are_not_packed_as_one_document():
    case = Case("unpacked", InteractionConfig(2, visible=Visible(packed=False)), DescentConfig())
    assert all(row.passed for row in certify(case, ("float64",)))


def test_the_tolerances_are_the_policy():
    assert TOLERANCE["float64"] == 1e-10
    assert TOLERANCE["float32"] == 1e-5


def test_relative_error_tells_what_is_wrong():
    one = np.asarray([1.0, -4.0])
    assert relative_error(one, one) == 0
    assert relative_error(one + 0.4, one) == pytest.approx(0.1)
    for other in (one[:1], one * np.nan, one * np.inf):
        assert relative_error(other, one) == float("inf")
        assert relative_error(one, other) == float("inf")
    assert relative_error(one, 0 * one) == float("inf")
    assert relative_error(0 * one, 0 * one) == 0


def test_a_tensor_that_is_missing_fails():
    one = np.ones(2)
    row = compare("case", "float64", "A = C", {"a": one}, {"a": one, "b": one}, 1.0)
    assert (row.worst, row.passed, row.compared) == ("b", False, 2)


def test_central_differences_are_of_sixth_order(x64):
    errors = [abs(central_difference(jax.numpy.exp, step) - 1) for step in (0.4, 0.2)]
    assert 2**5.8 < errors[0] / errors[1] < 2**6.2
    assert central_difference(lambda t: 0 * t + 0.1) == 0


def test_a_case_without_hand_form_has_none():
    class Config:
        def build(self, dim, *, rngs):
            raise AssertionError

    case = Case("yours", Config(), DescentConfig())
    assert hand_form(case.energy) is None
    assert hand_form(SumConfig((MemoryConfig(2), case.energy))) is None


def test_rules_of_ours_are_counted_and_those_of_jax_are_not():
    inner = jax.custom_jvp(lambda x: x)
    inner.defjvp(lambda x, dx: (*x, *dx))
    outer = jax.custom_vjp(lambda x: x)
    outer.defvjp(lambda x: (x, None), lambda _, dx: (dx,))

    def scanned(x):
        return jax.lax.scan(lambda carry, _: (inner(outer(carry)), None), x, length=3)[0]

    assert custom_rules(scanned, 1.0) == 2
    assert custom_rules(jax.nn.softplus, 1.0) == 0
    assert scan_lengths(scanned, 1.0) == [3]
