"""Building and running modules just to see what they do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from rlpipe.errors import listed
from rlpipe.modules.torch.batch import DECISIONS, STATE_OUT

logger = logging.getLogger(__name__)

_RUNNING: ContextVar[bool] = ContextVar("trial", default=False)
_SEED = 0x7F4A7C15
"""Nobody's seed, so that what a trial draws afresh is not by chance what the module was built with."""


@contextmanager
def trial(device: torch.device) -> Iterator[None]:
    """Inside, random numbers are drawn that nobody misses, and a slim module does not have its list proven again."""
    token = _RUNNING.set(True)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            seed_generators(_SEED, device)
            yield
    finally:
        _RUNNING.reset(token)


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed the generators of the CPU and of one device.

    `torch.manual_seed` would seed all devices, also those that are started later, and nothing sets these back.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def is_trial() -> bool:
    """Whether a trial is running."""
    return _RUNNING.get()


def tried(run: Callable[[], Mapping[str, Any]], *, where: str) -> Mapping[str, Any] | None:
    """What inference puts out; None, and a warning, if it fails."""
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - a module may need inputs that only its author knows
        # To refuse would lose what was learnt; what the module says of itself is taken for true.
        logger.warning("%s: what acting needs could not be checked: %s", where, first_line(error))
        return None


def first_line(error: BaseException) -> str:
    """What an error says, on one line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def last_line(error: BaseException) -> str:
    """The last thing an error says, where torch puts what matters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"


def difference(found: Mapping[str, Any], expected: Mapping[str, Any], *, exact: bool = True) -> str | None:
    """What is not the same in two outputs; outputs that decide nothing may be missing.

    Args:
        found: Names and tensors, perhaps nested.
        expected: The same.
        exact: Bit for bit; else up to rounding.
    """
    changed = [name for name in found if name not in expected or not _same(found[name], expected[name], exact=exact)]
    lost = [name for name in expected if name not in found and name.rpartition(".")[2] in (*DECISIONS, STATE_OUT)]
    return f"other outputs {listed([*changed, *lost])}" if changed or lost else None


def _same(left: Any, right: Any, *, exact: bool) -> bool:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[name], right[name], exact=exact) for name in left)
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right)
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    left, right = left.cpu(), right.cpu()
    if left.is_floating_point():
        # Not every comparison has the small types.
        left, right = left.double(), right.double()
    if not exact and left.is_floating_point():
        return torch.allclose(left, right, rtol=1e-3, atol=1e-3, equal_nan=True)
    both_nan = left.isnan() & right.isnan()
    return bool(((left == right) | both_nan).all())
