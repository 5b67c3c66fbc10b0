"""Small components without any framework, for the tests of this folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.errors import SpecError, StateMismatchError
from rlpipe.snapshot import Role, Snapshot, Spec
from rlpipe.snapshot.numberless import numberless
from rlpipe.snapshot.state import Array, State, entries

TRUST = ("tests.checkpoint.components.*",)


class Net(Checkpointable):
    """A linear map with a critic, whose weight may be the same array as the actor's."""

    def __init__(self, size: int = 3, *, is_tied: bool = False, device: str = "cpu") -> None:
        self.size, self.is_tied, self.device, self.steps = size, is_tied, device, 0
        self.actor = np.zeros((size, 2), np.float32)
        self.critic = self.actor if is_tied else np.zeros((size, 2), np.float32)
        self.calls: list[str] = []

    def get_spec(self) -> Spec:
        return Spec(f"{__name__}.Net", {"size": self.size, "is_tied": self.is_tied}, {"inference_only": False})

    def get_own_state(self) -> State:
        if self.device == "meta":
            nothing = numberless(self.actor.dtype, self.actor.shape)
            return {"pi": {"weight": nothing}, "vf": {"weight": nothing}, "steps": 0}
        return {"pi": {"weight": self.actor}, "vf": {"weight": self.critic}, "steps": self.steps}

    def get_own_roles(self) -> Mapping[str, Role]:
        return {"pi/weight": "inference", "vf/weight": "inference" if self.is_tied else "training", "steps": "training"}

    def check_own_state(self, state: State) -> None:
        if not np.isfinite(state["pi"]["weight"]).all():
            raise StateMismatchError("pi/weight is not finite", mismatched=["pi/weight"])

    def set_own_state(self, state: State) -> None:
        self.calls.append("set")
        self.actor[...] = state["pi"]["weight"]
        self.critic[...] = state["vf"]["weight"]
        self.steps = state["steps"]

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Restorable], *, device: str, trust: tuple[str, ...]) -> Self:
        del children, trust
        if spec.config.get("size", 0) < 1:
            raise SpecError("a net without inputs", expected="size >= 1", found=str(spec.config.get("size")))
        return cls(spec.config["size"], is_tied=spec.config["is_tied"], device=device)


class Open(Net):
    """A net that gives its memory away, and notes what it is given."""

    def __init__(self, size: int = 3, *, is_tied: bool = False, device: str = "cpu") -> None:
        super().__init__(size, is_tied=is_tied, device=device)
        self.checked: list[Any] = []
        self.was_filled = False

    def get_spec(self) -> Spec:
        return Spec(f"{__name__}.Open", {"size": self.size, "is_tied": self.is_tied}, {"inference_only": False})

    def get_own_memory(self) -> Mapping[str, Array]:
        return {"pi/weight": self.actor, "vf/weight": self.critic}

    def check_own_state(self, state: State) -> None:
        self.checked.append(state["pi"]["weight"])

    def set_own_state(self, state: State) -> None:
        self.was_filled = state["pi"]["weight"] is self.actor
        super().set_own_state(state)


class Losing(Open):
    """A net whose checkpoint goes between the look at its bytes and the restore."""

    lost = Path("nothing")

    def check_own_state(self, state: State) -> None:
        super().check_own_state(state)
        shutil.rmtree(self.lost, ignore_errors=True)


class Awkward(Open):
    """A net whose memory nothing can be read into."""

    def get_own_memory(self) -> Mapping[str, Array]:
        shut = self.critic.view()
        shut.setflags(write=False)
        return {"pi/weight": np.asfortranarray(self.actor), "vf/weight": shut, "more": np.zeros(3)}


class SlimNet(Net):
    """A net of which only the actor is left where the spec says so."""

    def __init__(self, size: int = 3, *, inference_only: bool = False) -> None:
        super().__init__(size)
        self.inference_only = inference_only

    def get_spec(self) -> Spec:
        return Spec(f"{__name__}.SlimNet", {"size": self.size}, {"inference_only": self.inference_only})

    def get_own_state(self) -> State:
        actor: State = {"pi": {"weight": self.actor}}
        return actor if self.inference_only else {**actor, "vf": {"weight": self.critic}, "steps": self.steps}

    def get_own_roles(self) -> Mapping[str, Role]:
        roles = super().get_own_roles()
        return {key: roles[key] for key in entries(self.get_own_state())}

    def set_own_state(self, state: State) -> None:
        self.actor[...] = state["pi"]["weight"]
        if not self.inference_only:
            self.critic[...] = state["vf"]["weight"]
            self.steps = state["steps"]

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Restorable], *, device: str, trust: tuple[str, ...]) -> Self:
        del children, device, trust
        return cls(spec.config["size"], inference_only=spec.options["inference_only"])


class Team(Checkpointable):
    """Named nets, and a plain number of its own."""

    def __init__(self, nets: Mapping[str, Any], *, epsilon: float = 0.5) -> None:
        self.nets, self.epsilon = dict(nets), epsilon

    def get_spec(self) -> Spec:
        return Spec(f"{__name__}.Team")

    def get_own_state(self) -> State:
        return {"epsilon": self.epsilon}

    def get_own_roles(self) -> Mapping[str, Role]:
        return {"epsilon": "training"}

    def set_own_state(self, state: State) -> None:
        self.epsilon = state["epsilon"]

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        return list(self.nets.items())

    def get_snapshot_metadata(self) -> Mapping[str, Any]:
        return {"trained": True}

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Restorable], *, device: str, trust: tuple[str, ...]) -> Self:
        del spec, device, trust
        return cls(children)


class SharingTeam(Team):
    """A team that can make its nets share their actors."""

    def get_spec(self) -> Spec:
        return Spec(f"{__name__}.SharingTeam")

    def tie_components(self, ties: Sequence[Sequence[tuple[str, str]]]) -> None:
        for tie in ties:
            first, *others = (self.nets[name] for name, _ in tie)
            for other in others:
                other.actor = first.actor


def net(seed: int, size: int = 3, *, is_tied: bool = False) -> Net:
    made = Net(size, is_tied=is_tied)
    rng = np.random.default_rng(seed)
    made.actor[...] = rng.normal(size=made.actor.shape)
    if not is_tied:
        made.critic[...] = rng.normal(size=made.actor.shape)
    made.steps = seed
    return made


def team(*seeds: int) -> Team:
    return Team({f"p{index}": net(seed) for index, seed in enumerate(seeds)})


def policy(seed: int, **more: Any) -> Snapshot:
    """A policy-like snapshot with arrays of both roles and plain values."""
    rng = np.random.default_rng(seed)
    state: State = {
        "encoder": {"0": {"weight": rng.normal(size=(8, 4)).astype("f4"), "bias": rng.normal(size=8).astype("f4")}},
        "vf": {"weight": rng.normal(size=(1, 8)).astype("f4")},
        "steps": seed,
        "history": [1, (2.5, None), rng.integers(0, 9, 3)],
        **more,
    }
    roles: dict[str, Role] = {key: "training" if key.startswith("vf") else "inference" for key in entries(state)}
    return Snapshot(Spec("rlpipe.policies.policy.Policy", {"seed": 0}, {"inference_only": False}), state, roles)


def tree(count: int = 3, *, shared: Array | None = None) -> Snapshot:
    """An algorithm-like tree of policies, perhaps with one array that all of them share."""
    more = {} if shared is None else {"shared": shared}
    policies = {f"p{index}": policy(index, **more) for index in range(count)}
    container = Snapshot(Spec("rlpipe.modules.multi_rl_module.MultiRLModule"), children=policies)
    return Snapshot(Spec("rlpipe.algorithms.algorithm.Algorithm"), children={"policies": container})
