"""What a model costs: parameters, FLOPs, activation and cache bytes, and the device's share of use.

`count_cost` has it all, part by part. FLOPs and caches come from formulas where a sublayer has one
and from its jaxpr otherwise, so that a new energy is counted as it is; activations come from the
derivative itself. Nothing is allocated or compiled. Compiled counts would not do: they count the
body of a scan once. A shared diagonal doubles the FLOPs of an attention's scores and readout, one
per head multiplies them by 1 + H.
"""

from cem_jax.models.cost.breakdown import Cost, TransformerCost, count_cost
from cem_jax.models.cost.flops import (
    PRODUCTS_IN_TRAINING,
    count_forward_flops,
    count_training_flops,
)
from cem_jax.models.cost.pairs import Pairs
from cem_jax.models.cost.parameters import (
    ParameterCount,
    count_module_parameters,
    count_parameters,
)
from cem_jax.models.cost.traced import count_flops
from cem_jax.models.cost.utilisation import mfu, peak_flops

__all__ = [
    "PRODUCTS_IN_TRAINING",
    "Cost",
    "Pairs",
    "ParameterCount",
    "TransformerCost",
    "count_cost",
    "count_flops",
    "count_forward_flops",
    "count_module_parameters",
    "count_parameters",
    "count_training_flops",
    "mfu",
    "peak_flops",
]
