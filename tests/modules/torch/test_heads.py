from __future__ import annotations

import pytest
import torch

from rlpipe.modules.torch.heads import (
    BernoulliHead,
    CategoricalHead,
    DeterministicHead,
    GaussianHead,
    MultiCategoricalHead,
    SquashedGaussianHead,
    dueling,
    policy_head,
    value_head,
)
from rlpipe.snapshot.spaces import Box, Discrete, MultiBinary, MultiDiscrete

LATENT = torch.randn(6, 4)


@pytest.mark.parametrize(
    ("head", "width"),
    [(CategoricalHead(4, 3), 3), (MultiCategoricalHead(4, (2, 3)), 5), (BernoulliHead(4, 2), 2)],
)
def test_choices_have_a_score_each(head: CategoricalHead, width: int) -> None:
    found = head(LATENT)
    assert list(found) == ["logits"]
    assert found["logits"].shape == (6, width)
    assert list(head.state_dict()) == ["logits.weight", "logits.bias"]


@pytest.mark.parametrize(
    ("log_std", "shape"),
    [
        ("free", {"log_std": (2,)}),
        ("gsde", {"log_std": (4, 2)}),
        ("state", {"log_std.weight": (2, 4)}),
        ("std", {"std.weight": (2, 4)}),
    ],
)
def test_a_gaussian_has_a_deviation_for_each_action(log_std: str, shape: dict[str, tuple[int, ...]]) -> None:
    head = GaussianHead(4, 2, log_std)  # type: ignore[arg-type]
    found = head(LATENT)
    assert {name: tuple(value.shape) for name, value in found.items()} == {"mean": (6, 2), "log_std": (6, 2)}
    assert torch.equal(head.mode(LATENT)["mean"], found["mean"])
    name, expected = next(iter(shape.items()))
    assert tuple(head.state_dict()[name].shape) == expected


def test_a_deviation_that_is_computed_itself_stays_above_nothing() -> None:
    head = GaussianHead(4, 2, "std")
    assert head.std is not None
    found = head(1e3 * LATENT)["log_std"]
    torch.testing.assert_close(found, head.std(1e3 * LATENT).clamp_min(1e-6).log())
    assert torch.isfinite(found).all()


def test_a_gaussian_may_be_without_a_deviation() -> None:
    head = GaussianHead(4, 2, "none")
    assert list(head(LATENT)) == ["mean"]
    assert list(head.state_dict()) == ["mean.weight", "mean.bias"]


def test_a_squashed_gaussian_bounds_its_deviation_and_its_mean() -> None:
    head = SquashedGaussianHead(4, 2, "state", mean_clip=0.1)
    found = head(1e6 * LATENT)
    assert found["mean"].abs().max() <= 0.1
    assert found["log_std"].min() >= -20
    assert found["log_std"].max() <= 2


def test_a_deterministic_head_has_a_mean_alone() -> None:
    assert list(DeterministicHead(4, 2)(LATENT)) == ["mean"]


def test_values_may_have_layers_of_their_own() -> None:
    assert list(value_head(4, 3).state_dict()) == ["weight", "bias"]
    assert list(value_head(4, 3, hidden=(5,)).state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_dueling_keeps_the_mean_of_the_values() -> None:
    advantages, values = torch.randn(6, 3), torch.randn(6, 1)
    q = dueling(advantages, values)
    torch.testing.assert_close(q.mean(1, keepdim=True), values)
    torch.testing.assert_close(q - q.mean(1, keepdim=True), advantages - advantages.mean(1, keepdim=True))


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (Box.uniform(-1, 1, (2, 2)), GaussianHead),
        (Discrete(3), CategoricalHead),
        (MultiDiscrete([2, 3]), MultiCategoricalHead),  # type: ignore[arg-type]
        (MultiBinary((2,)), BernoulliHead),
    ],
)
def test_each_action_space_has_its_head(space: object, kind: type) -> None:
    assert type(policy_head(4, space, "free")) is kind  # type: ignore[arg-type]
