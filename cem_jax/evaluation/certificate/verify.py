"""The whole certificate: what is run, in which order, on how many threads."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from cem_jax.energies import EnergyConfig
from cem_jax.evaluation.certificate.cases import Case, cases_of, catalogue
from cem_jax.evaluation.certificate.certify import PRECISIONS, Row, certify
from cem_jax.evaluation.certificate.literalness import literalness_rows
from cem_jax.evaluation.certificate.potential_rows import potential_rows
from cem_jax.evaluation.certificate.tolerances import Precision


class Job(NamedTuple):
    """A part of the certificate: its name, and what gives its rows."""

    name: str
    run: Callable[[], list[Row]]


def jobs(
    *,
    full: bool = False,
    energy: EnergyConfig | None = None,
    precisions: tuple[Precision, ...] = PRECISIONS,
    seed: int = 0,
) -> list[Job]:
    """What a run of ``cem verify`` checks.

    Args:
        full: every pair of options instead of every option, and float32 as a user compiles it.
        energy: only this one, a user's, in all norm modes.
        precisions: which of the three.
        seed: of parameters and data.
    """
    cases = catalogue(full) if energy is None else cases_of("yours", energy, full)
    of_layers = [
        Job(case.name, functools.partial(_certify, case, precisions, seed, full)) for case in cases
    ]
    if energy is not None:
        return of_layers
    return [
        Job("another energy", literalness_rows),
        Job("potentials", potential_rows),
        *of_layers,
    ]


def _certify(case: Case, precisions: tuple[Precision, ...], seed: int, full: bool) -> list[Row]:
    return certify(case, precisions, seed=seed, optimised=full)


def run(jobs: list[Job], finished: Callable[[Job], None] = lambda job: None) -> list[Row]:
    """All rows, in the order of the jobs; ``finished`` is told of each job as it ends.

    Compiling is most of the work and leaves Python's lock free, so threads share it.
    """
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        futures = {pool.submit(job.run): job for job in jobs}
        try:
            for future in as_completed(futures):
                future.result()
                finished(futures[future])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return list(itertools.chain.from_iterable(future.result() for future in futures))
