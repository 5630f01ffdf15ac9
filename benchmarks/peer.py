"""Hugging Face's Llama in PyTorch as a side: a whole training step."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from cem_jax.data import Batch
from cem_jax.models import TransformerConfig
from cem_jax.models.cost import count_parameters
from cem_jax.runs.benchmark.model import random_batch
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.timing import Side

AdamW = Literal["default", "foreach", "fused"]

PACKAGES = ("torch", "transformers")


def libraries() -> tuple[Any, Any]:
    """``torch`` and ``transformers``.

    Raises:
        ValueError: they are not installed.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ValueError(
            f"peer: got no package {error.name!r}, expected PyTorch and Hugging Face Transformers; "
            f"install them with pip install '.[oracles]'."
        ) from error
    return torch, transformers


def llama(shape: Shape) -> Any:
    """`LlamaForCausalLM` of that shape: tied embeddings, no dropout, fused attention."""
    _, transformers = libraries()
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.dim,
        intermediate_size=shape.features,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.length,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return transformers.LlamaForCausalLM(config).train()


def peer_side(name: str, ours: TransformerConfig, shape: Shape, adamw: AdamW, flops: float) -> Side:
    """A training step of the peer, eager, on all cores.

    Args:
        name: of the side.
        ours: the model it must have as many parameters as.
        shape: of model and batch; float32.
        adamw: which of PyTorch's implementations.
        flops: of our step, which the peer's are.

    Raises:
        ValueError: PyTorch is missing, or the parameters are not as many.
    """
    torch, _ = libraries()
    torch.manual_seed(0)
    torch.set_num_threads(_cores())
    model = llama(shape)
    found, expected = count(model), count_parameters(ours).total
    if found != expected:
        raise ValueError(f"peer: got {found:,} parameters, expected {expected:,} as in ours.")
    step = training_step(model, random_batch(shape), adamw)
    return Side(name, step, {"flops": flops, "parameters": found})


def count(model: Any) -> int:
    """Parameters, a tied one once."""
    return sum(parameter.numel() for parameter in model.parameters())


def training_step(model: Any, batch: Batch, adamw: AdamW) -> Callable[[], float]:
    """Loss, gradient, clipping and AdamW, as our step has them; returns the loss."""
    torch, _ = libraries()
    choice = {} if adamw == "default" else {adamw: True}
    betas, decay = (0.9, 0.98), 0.1
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=betas, weight_decay=decay, **choice
    )
    inputs, targets = (
        torch.from_numpy(np.array(part, np.int64)) for part in (batch.inputs, batch.targets)
    )

    def step() -> float:
        optimiser.zero_grad(set_to_none=True)
        logits = model(input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return float(loss.item())

    return step


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
