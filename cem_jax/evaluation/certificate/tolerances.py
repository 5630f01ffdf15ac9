"""The tolerances of the certificate, and the one measure of error. Policy: never loosened."""

from __future__ import annotations

from typing import Literal

import numpy as np

Precision = Literal["float64", "float32", "bfloat16"]

TOLERANCE: dict[str, float] = {"float64": 1e-10, "float32": 1e-5, "bfloat16": 1e-1}
"""Per tensor. bfloat16 is compared with the float32 reference, and its tolerance is a measurement:
the largest error over the default and the full set, on JAX 0.10 and 0.12, is 8e-2, in the score
weights of norm mode "exact" at T = 3. It is the format's: column A in bfloat16 is as far off, and
rounding nothing but the inputs of the float32 layer moves the same tensors by 1e-2 to 2e-2. At
T = 1 and 2 it is at most 4e-2. A missing term is an error of order one.
"""

FINITE_DIFFERENCE = 1e-6
"""Central differences in float64, which column C is where an energy has no hand form."""


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """max |found - expected| / max |expected| of one tensor, in float64.

    Infinite where anything is not finite, or where the expected tensor is zero and the found one
    is not.
    """
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape or not (np.isfinite(found) & np.isfinite(expected)).all():
        return float("inf")
    difference = float(np.max(np.abs(found - expected), initial=0.0))
    size = float(np.max(np.abs(expected), initial=0.0))
    if difference == 0.0:
        return 0.0
    return difference / size if size else float("inf")
