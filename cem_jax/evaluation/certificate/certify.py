"""The certificate of one layer: columns A, B and C compared, in three precisions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
from jaxtyping import Array

from cem_jax.energies import EnergyConfig
from cem_jax.evaluation.causality import leaks
from cem_jax.evaluation.certificate.cases import Case
from cem_jax.evaluation.certificate.columns import (
    Tensors,
    by_hand,
    library,
    measure,
    on_backend,
    shipped_backends,
)
from cem_jax.evaluation.certificate.finite_differences import (
    differenced,
    draw_directions,
    measure_directions,
    project,
)
from cem_jax.evaluation.certificate.hand import HandForm
from cem_jax.evaluation.certificate.hand_forms import hand_form
from cem_jax.evaluation.certificate.jaxprs import custom_rules
from cem_jax.evaluation.certificate.problem import DIM, Problem, make_problem
from cem_jax.evaluation.certificate.tolerances import (
    FINITE_DIFFERENCE,
    TOLERANCE,
    Precision,
    relative_error,
)
from cem_jax.ops.visibility import Sites

InLibrary = Callable[[EnergyConfig, str], Tensors]
"""A column of the package: ``(energy, precision) -> tensors``."""

PRECISIONS: tuple[Precision, ...] = ("float64", "float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        case: the layer, or what else was checked.
        precision: of the column under test.
        comparison: such as ``"A = B"``.
        worst: the tensor that differs most.
        error: its largest relative error.
        tolerance: what is allowed.
        compared: how many tensors were compared.
    """

    case: str
    precision: str
    comparison: str
    worst: str
    error: float
    tolerance: float
    compared: int

    @property
    def passed(self) -> bool:
        """The verdict; NaN is no pass."""
        return self.error <= self.tolerance


def compare(
    case: str, precision: str, comparison: str, found: Tensors, expected: Tensors, tolerance: float
) -> Row:
    """All tensors of two columns; a tensor that only one of them has is an infinite error."""
    names = sorted(found.keys() | expected.keys())
    errors = {
        name: relative_error(found[name], expected[name])
        if name in found and name in expected
        else float("inf")
        for name in names
    }
    worst = max(names, key=lambda name: errors[name])
    return Row(case, precision, comparison, worst, errors[worst], tolerance, len(names))


def certify(
    case: Case,
    precisions: tuple[Precision, ...] = PRECISIONS,
    *,
    seed: int = 0,
    optimised: bool = False,
) -> list[Row]:
    """The rows of one layer.

    A: on backend ``plain``, differentiated by JAX's own rules. B: as shipped, on every backend
    that runs here. C: written by hand, always in float64, so that its own rounding does not count;
    without a hand form, central differences. bfloat16 is compared with A in float32 and with C.

    Args:
        case: the layer.
        precisions: which of the three.
        seed: of parameters and data.
        optimised: whether the float32 programs are compiled as a user's are, which takes long.
    """
    problem = make_problem(case.energy, case.descent, seed)
    form = hand_form(case.energy)

    def in_library(energy: EnergyConfig, precision: str) -> Tensors:
        with jax.enable_x64(precision == "float64"):
            column = library(energy, case.descent, problem.sites, precision)
            quick = not (optimised and precision == "float32")
            return measure(column, problem.cast(_wide(precision)), quick=quick)

    if form is None:
        return _differences(case, precisions, problem, in_library, seed)
    return [_no_rule(case, problem), *_three_columns(case, form, precisions, problem, in_library)]


def _no_rule(case: Case, problem: Problem) -> Row:
    """Column A's premise: no custom derivative under its energy, nor in the layer."""
    energy = on_backend(case.energy, "plain", "plain")
    plain = library(energy, case.descent, problem.sites, "float32")
    count = custom_rules(plain.energy, problem.parameters, problem.u, problem.h)
    count += custom_rules(plain.layer, problem.parameters, problem.h)
    return Row(case.name, "-", "A has no custom rule", "rules in the jaxpr", float(count), 0.0, 1)


def _three_columns(
    case: Case,
    form: HandForm,
    precisions: tuple[Precision, ...],
    problem: Problem,
    in_library: InLibrary,
) -> list[Row]:
    with jax.enable_x64(True):
        by = by_hand(form, case.descent, problem.sites)
        hand = measure(by, problem.cast("float64"))
    # bfloat16 has no column A of its own: the reference is A in float32.
    widths = {_wide(precision) for precision in precisions}
    reference = on_backend(case.energy, "plain", "plain")
    plains = {width: in_library(reference, width) for width in widths}
    rows: list[Row] = []
    for precision in precisions:
        plain = plains[_wide(precision)]
        tolerance = TOLERANCE[precision]
        if precision != "bfloat16":
            rows.append(compare(case.name, precision, "A = C", plain, hand, tolerance))
        for backend, config in shipped_backends(case.energy).items():
            shipped = in_library(config, precision)
            for letter, other in (("A", plain), ("C", hand)):
                name = f"B ({backend}) = {letter}"
                rows.append(compare(case.name, precision, name, shipped, other, tolerance))
    return rows


def _differences(
    case: Case,
    precisions: tuple[Precision, ...],
    problem: Problem,
    in_library: InLibrary,
    seed: int,
) -> list[Row]:
    """Without a hand form: the layer's own autodiff against differences, then against itself."""
    directions = draw_directions(problem, seed)
    with jax.enable_x64(True):
        column = by_hand(differenced(case.energy), case.descent, problem.sites)
        expected = measure_directions(column, problem.cast("float64"), directions)
    wide = in_library(case.energy, "float64")
    rows = []
    for precision in precisions:
        if precision == "float64":
            found, name = project(wide, directions), "A = C (differences)"
            tolerance = FINITE_DIFFERENCE
            rows.append(compare(case.name, precision, name, found, expected, tolerance))
        else:
            found, tolerance = in_library(case.energy, precision), TOLERANCE[precision]
            rows.append(compare(case.name, precision, "A = A float64", found, wide, tolerance))
    return [*rows, *_causal(case, problem)]


def _causal(case: Case, problem: Problem) -> list[Row]:
    """A user's layer sees neither the future nor another document or example."""
    parameters = problem.cast("float32").parameters

    def layer(h: Array, sites: Sites) -> Array:
        return library(case.energy, case.descent, sites, "float32").layer(parameters, h)

    found = leaks(layer, DIM)
    return [
        Row(case.name, "-", f"does not see {source}", "output", change, 0.0, 1)
        for source, change in found.items()
    ]


def _wide(precision: str) -> str:
    """Parameters and the carried x are float32 where the products are bfloat16."""
    return "float64" if precision == "float64" else "float32"
