"""The stages that a policy gets where nobody names others."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nextafter, prod
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from rlpipe.errors import SpecError, closest
from rlpipe.policies.action_stages import Argmax, Clip, MultiArgmax, Round, Tanh, Threshold, Unscale
from rlpipe.policies.array_stages import Cast, Flatten, Layout, Reshape
from rlpipe.policies.dict_stages import Concat, PerKey, Pick, keyed
from rlpipe.policies.mask_stages import Mask
from rlpipe.policies.observation_stages import OneHot, Scale, choices
from rlpipe.policies.part_stages import Parts
from rlpipe.policies.stage import Stage
from rlpipe.snapshot.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flat_items

OutputKind: TypeAlias = Literal["logits", "mean", "squashed", "q", "action"]
"""What a module puts out: scores of choices, a mean in action units, a mean before tanh, Q values, the action."""

Stages: TypeAlias = tuple[Stage, ...]

_FLOAT64 = np.dtype(np.float64)
_FLOAT32 = np.dtype(np.float32)
_UINT8 = np.dtype(np.uint8)


def parted_observation_stages(space: Space, *, mask_key: str = "") -> Stages:
    """As `default_observation_stages`, with the parts of a Dict or Tuple apart, for modules that take them so."""
    stages = default_observation_stages(space, mask_key=mask_key)
    return stages[:-1] if isinstance(stages[-1] if stages else None, Concat) else stages


def default_observation_stages(space: Space, *, mask_key: str = "") -> Stages:
    """The stages that turn any observation into one row of float32, or an image into (channels, height, width).

    Box: cast, flattened; a uint8 image of 0..255: channels first, over 255. Discrete, MultiDiscrete: one-hot.
    MultiBinary: cast, flattened. Dict, Tuple: each part by its own stages, then in one row, by key or index.

    Args:
        space: The environment's.
        mask_key: A key of a Dict that is a mask, and nothing for the module to see; "" for none.

    Raises:
        SpecError: A space without default, such as Text, or without that key.
    """
    if mask_key:
        return _without(space, mask_key)
    maker = _OBSERVATION.get(type(space))
    if maker is None:
        known = ", ".join(kind.__name__ for kind in _OBSERVATION)
        raise SpecError(
            "there are no default stages for this observation space",
            expected=known,
            found=space.describe(),
            fix="leave the part out of the environment's observations",
        )
    return maker(space)


def _without(space: Space, key: str) -> Stages:
    rest = {name: part for name, part in space.spaces.items() if name != key} if isinstance(space, Dict) else {}
    if not rest or len(rest) == len(space.spaces):  # type: ignore[attr-defined]
        raise SpecError(
            f"the observation has no mask {key!r} beside something to see",
            expected=f"a Dict with {key!r} and another key",
            found=space.describe(),
            fix="name the key of the mask, or give the mask as an input of its own",
        )
    return (Pick(tuple(rest)), *_per_part(Dict(rest)))


def _box(space: Box) -> Stages:
    if _is_image(space):
        return (*_channels_first(space.shape), Scale(255.0))
    return (*_cast(space.dtype), *_flatten(space.shape))


def _is_image(space: Box) -> bool:
    if len(space.shape) != 3 or space.dtype != _UINT8 or not space.low.size:
        return False
    return bool(space.low.max() == 0 and space.high.min() == 255)


def _channels_first(shape: tuple[int, ...]) -> Stages:
    # The channels are the shortest axis; where that says nothing, they are last, as environments give them.
    is_first = shape[0] < min(shape[1:])
    return () if is_first else (Layout((2, 0, 1)),)


def _cast(dtype: np.dtype[Any]) -> Stages:
    return () if dtype == _FLOAT32 else (Cast("float32"),)


def _flatten(shape: tuple[int, ...]) -> Stages:
    return () if len(shape) == 1 else (Flatten(),)


def _one_hot(space: Discrete | MultiDiscrete) -> Stages:
    return (OneHot(*choices(space)),)


def _multi_binary(space: MultiBinary) -> Stages:
    return (Cast("float32"), *_flatten(space.shape))


def _per_part(space: Dict | Tuple) -> Stages:
    parts = keyed(space)
    return (PerKey({key: default_observation_stages(part) for key, part in parts.items()}), Concat(tuple(parts)))


_OBSERVATION: MappingProxyType[type[Space], Callable[[Any], Stages]] = MappingProxyType(
    {
        Box: _box,
        Discrete: _one_hot,
        MultiDiscrete: _one_hot,
        MultiBinary: _multi_binary,
        Dict: _per_part,
        Tuple: _per_part,
    }
)


def masked_action_stages(space: Space, kind: OutputKind, key: str = "") -> Stages:
    """As `default_action_stages`, for choices of which some may not be allowed.

    Args:
        space: The environment's.
        kind: What the module puts out.
        key: Where the mask is, see `Mask`.

    Raises:
        SpecError: The module's output cannot decide in this space, or there is nothing to forbid.
    """
    stages = default_action_stages(space, kind)
    if kind not in ("logits", "q") or not isinstance(space, (Discrete, MultiDiscrete)):
        raise SpecError(
            "there is nothing that an action mask could forbid",
            expected="scores of Discrete or MultiDiscrete actions",
            found=f"{kind} for {space.describe()}",
            fix="leave action_mask out",
        )
    return (Mask(choices(space)[0], key), *stages)


def default_action_stages(space: Space, kind: OutputKind) -> Stages:
    """The stages that turn what a module puts out into an action that the space contains.

    Discrete: argmax. MultiDiscrete: argmax of each block. MultiBinary: logits above 0. Box: a mean is clipped, a
    squashed mean goes through tanh and is unscaled. An action is only reshaped, cast and clipped. Dict, Tuple: each
    leaf by its own stages, from its block of the row; numbers beside logits are means, choices beside means logits.

    Raises:
        SpecError: The module's output cannot decide in this space.
    """
    if isinstance(space, (Dict, Tuple)):
        return (_parts(space, kind),)
    makers = {output: maker for (kind_of_space, output), maker in _ACTION.items() if kind_of_space is type(space)}
    if kind not in makers:
        near = closest(kind, makers)
        raise SpecError(
            f"a module that puts out {kind!r} cannot act in {space.describe()}",
            expected=f"output {' or '.join(makers)}" if makers else "Box, Discrete, MultiDiscrete, MultiBinary",
            found=kind,
            fix=f"did you mean {' or '.join(near)}?" if near else "choose another module, or name the action stages",
        )
    return makers[kind](space)


def _parts(space: Dict | Tuple, kind: OutputKind) -> Parts:
    leaves = {name.partition(".")[2]: leaf for name, leaf in flat_items(space, "action")}
    stages = {key: default_action_stages(leaf, _kind_of_leaf(leaf, kind)) for key, leaf in leaves.items()}
    widths = [
        scores_of(leaf) if any(one.decides for one in stages[key]) else prod(leaf.shape) for key, leaf in leaves.items()
    ]
    return Parts(tuple(leaves), tuple(widths), stages)


def _kind_of_leaf(leaf: Space, kind: OutputKind) -> OutputKind:
    if isinstance(leaf, Box):
        return "mean" if kind in ("logits", "q") else kind
    return "logits" if kind in ("mean", "squashed", "q") else kind


def scores_of(space: Space) -> int:
    """How many scores a row has for what can be chosen in a space; the count of numbers of a Box.

    Raises:
        SpecError: The space is none of Box, Discrete, MultiDiscrete, MultiBinary.
    """
    counter = _SCORES.get(type(space))
    if counter is not None:
        return counter(space)
    known = ", ".join(kind.__name__ for kind in _SCORES)
    raise SpecError("a policy cannot act in this space", expected=known, found=space.describe())


_SCORES: MappingProxyType[type[Space], Callable[[Any], int]] = MappingProxyType(
    {
        Box: lambda space: prod(space.shape),
        Discrete: lambda space: space.n,
        MultiDiscrete: lambda space: int(space.nvec.sum()),
        MultiBinary: lambda space: prod(space.shape),
    }
)


def _argmax(space: Discrete) -> Stages:
    return (Argmax(space.start), *_cast_choice(space.dtype))


def _multi_argmax(space: MultiDiscrete) -> Stages:
    return (MultiArgmax(*choices(space)), *_reshape(space.shape), *_cast_choice(space.dtype))


def _cast_choice(dtype: np.dtype[Any]) -> Stages:
    return () if dtype == np.dtype(np.int64) else (Cast(dtype.name),)


def _threshold(space: MultiBinary) -> Stages:
    return (Threshold(), *_reshape(space.shape))


def _reshape(shape: tuple[int, ...]) -> Stages:
    return () if len(shape) == 1 else (Reshape(shape),)


def _mean(space: Box) -> Stages:
    return (*_reshape(space.shape), *_wide(space), *_clip(space), *_narrow(space))


def _squashed(space: Box) -> Stages:
    unscale = Unscale(*_bounds(space))
    return (*_reshape(space.shape), Tanh(), *_wide(space), unscale, *_narrow(space))


def _box_action(space: Box) -> Stages:
    whole = (Cast(space.dtype.name),)
    return (Reshape(space.shape), *(whole if space.dtype == _FLOAT32 else _wide(space)), *_clip(space), *_narrow(space))


def _whole_action(space: Discrete | MultiDiscrete | MultiBinary) -> Stages:
    return (Reshape(space.shape), Cast(space.dtype.name))


def _wide(space: Box) -> Stages:
    # Bounds of a float64 or integer space may lie between two numbers of float32: they are applied in float64.
    return (Cast("float64"),) if space.dtype == _FLOAT64 or space.dtype.kind != "f" else ()


def _clip(space: Box) -> Stages:
    if not (np.isfinite(space.low).any() or np.isfinite(space.high).any()):
        return ()
    return (Clip(*_bounds(space)),)


def _narrow(space: Box) -> Stages:
    if space.dtype.kind != "f":
        return (Round(), Cast(space.dtype.name))
    return () if space.dtype in (_FLOAT32, _FLOAT64) else (Cast(space.dtype.name),)


def _bounds(space: Box) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Both bounds as floats, rounded inwards: beyond a bound is no action, and beyond 64 bits a cast says anything."""
    if not prod(space.shape):
        return (0.0,), (0.0,)
    pairs = [
        _within(*pair) for pair in zip(space.low.reshape(-1).tolist(), space.high.reshape(-1).tolist(), strict=True)
    ]
    lows, highs = zip(*pairs, strict=True)
    return lows, highs


def _within(low: float, high: float) -> tuple[float, float]:
    least, most = float(low), float(high)
    # Python compares integers and floats exactly.
    least = nextafter(least, inf) if least < low else least
    most = nextafter(most, -inf) if most > high else most
    return min(least, most), most


_ACTION: MappingProxyType[tuple[type[Space], str], Callable[[Any], Stages]] = MappingProxyType(
    {
        (Box, "mean"): _mean,
        (Box, "squashed"): _squashed,
        (Box, "action"): _box_action,
        (Discrete, "logits"): _argmax,
        (Discrete, "q"): _argmax,
        (Discrete, "action"): _whole_action,
        (MultiDiscrete, "logits"): _multi_argmax,
        (MultiDiscrete, "action"): _whole_action,
        (MultiBinary, "logits"): _threshold,
        (MultiBinary, "action"): _whole_action,
    }
)
