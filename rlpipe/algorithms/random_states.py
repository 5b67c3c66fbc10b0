"""The random number generators of a process as a state: Python's, numpy's, torch's, and those of CUDA devices."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpipe.errors import StateMismatchError
from rlpipe.modules.torch.tensors import tensor_of
from rlpipe.snapshot.state import Array, State

logger = logging.getLogger(__name__)

SOURCES = ("python", "numpy", "torch", "cuda")


def random_states() -> State:
    """The states of all generators of this process, each as one entry.

    CUDA generators are there once something of this process ran on CUDA; asking them before would start it.
    """
    return {
        "python": (_of_python(random.getstate()),),
        "numpy": (dict(np.random.get_state(legacy=False)),),  # noqa: NPY002 - it is the global generator that is kept
        "torch": (torch.get_rng_state().numpy().copy(),),
        "cuda": ([state.numpy().copy() for state in _cuda_states()],),
    }


def fresh_random_states(seed: int) -> State:
    """The states of generators that were just seeded, in the form of `random_states`; those of the process stay."""
    return {
        "python": (_of_python(random.Random(seed).getstate()),),  # noqa: S311 - no secrets are made
        "numpy": (dict(np.random.RandomState(seed).get_state(legacy=False)),),
        "torch": (torch.Generator().manual_seed(seed).get_state().numpy().copy(),),
        "cuda": ([],),
    }


def _of_python(state: Any) -> State:
    version, words, gauss = state
    return {"version": version, "words": np.array(words, np.uint32), "gauss": gauss}


def _cuda_states() -> list[torch.Tensor]:
    is_running: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.get_rng_state_all() if is_running else []


def check_random_states(state: State) -> None:
    """Refuse states that the generators could not take; nothing is changed.

    Raises:
        StateMismatchError: A generator refuses its state.
    """
    attempts: dict[str, Callable[[], object]] = {
        "python": lambda: random.Random(0).setstate(_python(state)),  # noqa: S311 - no secrets are made
        "numpy": lambda: np.random.RandomState(0).set_state(_numpy(state)),
        "torch": lambda: torch.Generator().set_state(_torch(state["torch"][0])),
    }
    refused = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except (ValueError, TypeError, KeyError, RuntimeError, IndexError) as error:
            refused.append(f"{name} ({type(error).__name__}: {error})")
    if refused:
        raise StateMismatchError(
            "random number generators cannot take their states",
            mismatched=refused,
            fix="take the states of a process with the same generators",
        )


def set_random_states(state: State) -> None:
    """Put checked states into the generators of this process.

    States of CUDA devices that this machine lacks are left, with a warning: what is drawn there will differ.
    """
    random.setstate(_python(state))
    np.random.set_state(_numpy(state))  # noqa: NPY002 - it is the global generator that was kept
    torch.set_rng_state(_torch(state["torch"][0]))
    (saved,) = state["cuda"]
    here = torch.cuda.device_count() if saved else 0
    for index, one in enumerate(saved[:here]):
        torch.cuda.set_rng_state(_torch(one), index)
    if len(saved) > here:
        logger.warning("the random states of %d CUDA devices were left: this machine has %d", len(saved) - here, here)


def _python(state: State) -> Any:
    (saved,) = state["python"]
    return saved["version"], tuple(saved["words"].tolist()), saved["gauss"]


def _numpy(state: State) -> Any:
    (saved,) = state["numpy"]
    return {**saved, "state": {**saved["state"], "key": np.array(saved["state"]["key"])}}


def _torch(array: Array) -> torch.Tensor:
    return tensor_of(array).clone()
