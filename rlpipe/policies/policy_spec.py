"""What a policy is, as data. No torch before one is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from rlpipe.errors import SpecError, listed
from rlpipe.modules.fields import refuse_unknown
from rlpipe.modules.rl_module import RLModuleSpec, space_of
from rlpipe.policies.default_stages import scores_of
from rlpipe.policies.stage import row_of, through
from rlpipe.policies.stages import (
    Mask,
    Parts,
    Stages,
    default_action_stages,
    default_observation_stages,
    masked_action_stages,
    parted_observation_stages,
    prepared_space,
    stages_from_json,
    stages_to_json,
)
from rlpipe.snapshot.spaces import (
    Box,
    Leaf,
    Space,
    compare,
    flat_items,
    from_json,
    to_json,
)
from rlpipe.snapshot.spec import Json, Spec

if TYPE_CHECKING:
    from rlpipe.policies.policy import Policy

CLASS_PATH = "rlpipe.policies.policy.Policy"

_FIELDS = ("module", "observation_space", "action_space", "observation", "action")
_MAY_LACK = ("target",)
"""Left out where it says nothing, so that it changes no hash."""


@dataclass(frozen=True)
class PolicySpec:
    """What a policy is and how to build it.

    Attributes:
        module: The RL module; its observation space is that of prepared observations.
        observation_space: The environment's.
        action_space: The environment's.
        observation: Stages between observation and module.
        action: Stages between module and action.
        target: Stages behind the action, to what an actuator is given, such as joint angles; the environment applies
            them itself. () where that is not known.

    Raises:
        SpecError: The stages do not lead from the observations to what the module takes, or to the actions.
    """

    module: RLModuleSpec
    observation_space: Space
    action_space: Space
    observation: Stages
    action: Stages
    target: Stages = ()

    def __post_init__(self) -> None:
        """Check that the parts fit."""
        for name in ("observation_space", "action_space"):
            object.__setattr__(self, name, space_of(getattr(self, name)))
        for name in ("observation", "action", "target"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self._require_module_fits()
        self._require_actions_fit()

    def _require_module_fits(self) -> None:
        flat_items(self.observation_space, "obs")
        taken, prepared = self.module.observation_space, prepared_space(self.observation_space, self.observation)
        wrong = [finding.text for finding in compare(taken, prepared) if finding.severity == "error"]
        # Other bounds are no harm; another dtype would stop the network.
        if wrong or _dtypes(taken) != _dtypes(prepared):
            raise SpecError(
                "the observation stages do not lead to what the module takes",
                expected=taken.describe(),
                found=prepared.describe(),
                fix="give the module the space that prepared_space(observation_space, stages) names",
            )

    def _require_actions_fit(self) -> None:
        space = self.action_space
        made = through(self.action, decision_space(space, self.action))
        if _arrays(space) != _arrays(made):
            raise SpecError(
                "the action stages do not lead to what the environment takes",
                expected=space.describe(),
                found=made.describe(),
                fix="name stages that reach its shape and dtype, such as reshape and cast",
            )
        through(self.target, space)
        self._require_mask_fits()

    def _require_mask_fits(self) -> None:
        for index, stage in enumerate(self.action):
            if not isinstance(stage, Mask):
                continue
            after = self.action[index + 1] if index + 1 < len(self.action) else None
            leaves = {name.partition(".")[2]: leaf for name, leaf in flat_items(self.observation_space, "obs")}
            held = leaves.get(stage.key)
            fits = held is not None and held.shape == (sum(stage.nvec),) and held.dtype.kind in "biuf"
            if index or after is None or not after.decides or (stage.key and not fits):
                raise SpecError(
                    "the stage mask does not fit",
                    expected=f"the first action stage, a choice behind it, and {sum(stage.nvec)} numbers in its key",
                    found=f"stage {index} with key {stage.key!r} of {self.observation_space.describe()}",
                )

    @classmethod
    def default(  # noqa: PLR0913 - the fields of a RLModuleSpec, by name
        cls,
        module_class: str | type,
        observation_space: Any,
        action_space: Any,
        *,
        inference_only: bool = False,
        learner_only: bool = False,
        model_config: Mapping[str, Any] | None = None,
        non_inference_attributes: tuple[str, ...] | None = None,
        action_mask: str | None = None,
        trust: tuple[str, ...] = (),
    ) -> PolicySpec:
        """The policy of a module class with default stages. The class is built once, to see what it puts out.

        Args:
            module_class: The class of the module, or its dotted path.
            observation_space: The environment's.
            action_space: The environment's.
            inference_only: See `RLModuleSpec`.
            learner_only: See `RLModuleSpec`.
            model_config: See `RLModuleSpec`.
            non_inference_attributes: See `RLModuleSpec`.
            action_mask: Some choices may not be allowed: "" for an input of its own, or the key of a Dict of
                observations that says which are; None allows all.
            trust: Patterns of class paths that may be imported beside rlpipe's.

        Raises:
            UntrustedClassError: The class is not trusted.
            SpecError: It cannot be built for these spaces, or cannot act in this action space.
        """
        observations, actions = space_of(observation_space), space_of(action_space)
        from rlpipe.modules.torch.probing import class_of, learn_about
        from rlpipe.modules.torch.rl_module import RLModule

        kind = class_of(module_class, trust=trust)
        apart = issubclass(kind, RLModule) and kind.sees_parts(model_config or {})
        staged = parted_observation_stages if apart else default_observation_stages
        stages = staged(observations, mask_key=action_mask or "")
        module = RLModuleSpec(
            module_class,
            prepared_space(observations, stages),
            actions,
            inference_only,
            learner_only,
            model_config or {},
            non_inference_attributes,
        )
        facts = learn_about(module, trust=trust)
        full = replace(module, model_config=facts.model_config, state=facts.state)
        puts_out: Any = facts.output_kind
        if action_mask is None:
            chosen = default_action_stages(actions, puts_out)
        else:
            chosen = masked_action_stages(actions, puts_out, action_mask)
        return cls(full, observations, actions, stages, chosen)

    def build(self, *, device: str = "cpu", trust: tuple[str, ...] = ()) -> Policy:
        """A fresh policy on a device, marked as not trained; see `RLModuleSpec.build`."""
        from rlpipe.policies.policy import Policy

        return Policy(self, self.module.build(device=device, trust=trust), metadata={"trained": False})

    def with_inference_only(self, *, inference_only: bool) -> PolicySpec:
        """The same spec, its module built slim or whole."""
        return replace(self, module=self.module.with_inference_only(inference_only=inference_only))

    def to_json(self) -> dict[str, Json]:
        """What the policy computes, as plain JSON; see `options` for the rest."""
        return {
            "module": self.module.to_json(),
            "observation_space": to_json(self.observation_space),
            "action_space": to_json(self.action_space),
            "observation": stages_to_json(self.observation),
            "action": stages_to_json(self.action),
            **({"target": stages_to_json(self.target)} if self.target else {}),
        }

    def options(self) -> dict[str, Json]:
        """How its module is built, as plain JSON."""
        return self.module.options()

    def to_spec(self) -> Spec:
        """The spec of a policy's snapshot."""
        return Spec(CLASS_PATH, self.to_json(), self.options())

    @classmethod
    def from_json(cls, value: Mapping[str, Json], options: Mapping[str, Json]) -> PolicySpec:
        """The spec of its two JSON objects, the inverse of `to_json` and `options`.

        Raises:
            SpecError: A field is missing, unknown, or of the wrong type.
            SpaceError: A space that is none.
        """
        refuse_unknown(value, (*_FIELDS, *_MAY_LACK), where="policy")
        if missing := [name for name in _FIELDS if name not in value]:
            raise SpecError(f"the policy lacks {listed(missing)}", expected=listed(_FIELDS), found=listed(value))
        return cls(
            RLModuleSpec.from_json(value["module"], options, where="policy.module"),
            from_json(value["observation_space"], where="policy.observation_space"),
            from_json(value["action_space"], where="policy.action_space"),
            stages_from_json(value["observation"], side="observation"),
            stages_from_json(value["action"], side="action"),
            stages_from_json(value.get("target", []), side="target"),
        )

    @classmethod
    def from_spec(cls, spec: Spec) -> PolicySpec:
        """The spec of a policy's snapshot or manifest, the inverse of `to_spec`; see `from_json`."""
        return cls.from_json(spec.config, spec.options)


def _arrays(space: Space) -> list[tuple[str, Any, Any]]:
    """Name, shape and dtype of each leaf; nested ones by their flat names, in any order."""
    return sorted((name, leaf.shape, leaf.dtype.str) for name, leaf in flat_items(space, "action"))


def _dtypes(space: Space) -> list[tuple[str, Any]]:
    return [(name, leaf.dtype) for name, leaf in flat_items(space, "obs")]


def decision_space(space: Space, action: Stages) -> Box:
    """What a module puts out for an action space, as the action stages see it: a row of float32.

    With a stage that chooses there is a score for everything that can be chosen, else a number for each element; for
    several leaves it is all of that, one behind the other.

    Raises:
        SpecError: The space is none of Box, Discrete, MultiDiscrete, MultiBinary, and its stages do not name its parts.
    """
    if len(action) == 1 and isinstance(action[0], Parts) and not isinstance(space, Leaf):
        return row_of(sum(action[0].widths))
    scores = scores_of(space)
    chooses = any(stage.decides for stage in action)
    return row_of(scores if chooses else prod(space.shape))  # type: ignore[attr-defined]
