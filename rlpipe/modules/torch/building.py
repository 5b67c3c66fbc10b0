"""Building torch modules on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

from rlpipe.errors import DeviceError, RlpipeError, SpecError

M = TypeVar("M", bound=nn.Module)


def device_of(name: str) -> torch.device:
    """The device of a name such as "cpu", "cuda", "cuda:1" or "meta".

    Raises:
        DeviceError: No such device on this machine.
    """
    try:
        device = torch.device(name)
        if device.type != "meta":
            torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if reason.startswith("Expected one of"):
            reason = "a name that torch does not know"
        raise DeviceError(
            f"there is no device {name!r}",
            expected="cpu, meta" + (f", cuda:0..cuda:{count - 1}" if (count := torch.cuda.device_count()) else ""),
            found=reason[:200],
            fix="choose a device of this machine",
        ) from None
    return device


@contextmanager
def drawing_nothing(device: str) -> Iterator[None]:
    """Inside, torch's generators draw numbers that are overwritten; outside, they are where they were.

    So a checkpoint that is loaded beside a training changes nothing for it.

    Raises:
        DeviceError: No such device on this machine.
    """
    place = device_of(device)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        yield


def built_on(device: str, make: Callable[[], M]) -> M:
    """What `make` builds, on a device; tensors are made there, so "meta" allocates nothing.

    Raises:
        DeviceError: No such device on this machine.
        SpecError: The class failed to build.
    """
    place = device_of(device)
    try:
        with place:
            return make().to(place)
    except RlpipeError:
        raise
    except Exception as error:
        raise SpecError(
            "the class cannot be built of its spec",
            expected="spaces and a model_config that it takes",
            found=f"{type(error).__name__}: {error}"[:300],
        ) from error
