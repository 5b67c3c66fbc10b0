"""What trains one policy: its loss, optimizer and scheduler around the full module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import nn

from rlpipe.algorithms.hyperparameters import Change, Hyperparameters
from rlpipe.algorithms.kept_names import kept_names, require_accepted
from rlpipe.algorithms.kept_values import given_back, kept
from rlpipe.algorithms.optimizer_state import (
    check_optimizer_state,
    load_optimizer_state,
    named_parameters,
    optimizer_state,
)
from rlpipe.algorithms.own_copy import OwnCopy
from rlpipe.algorithms.training_spec import TrainingSpec
from rlpipe.checkpoint.checkpointable import Checkpointable
from rlpipe.checkpoint.classes import class_path_of
from rlpipe.checkpoint.restorable import Restorable
from rlpipe.errors import SpecError, StateMismatchError
from rlpipe.modules.torch.probing import place_of
from rlpipe.policies.policy import Policy
from rlpipe.snapshot.snapshot import Role
from rlpipe.snapshot.spec import Spec
from rlpipe.snapshot.state import State, from_dotted, join, to_dotted

POLICY = "policy"
_GONE = frozenset({"verbose"})
"""What schedulers of earlier versions of torch kept."""


class PolicyLearner(Checkpointable):
    """Trains one policy. Its directory holds a copy of the full policy, so that it can go on alone.

    Beside the policy its state is the optimizer's by the names of parameters, the scheduler's, the number of steps, and
    which parameters are trained at all (`requires_grad`).

    Args:
        policy: The policy; its module is trained in place.
        training: How.
        trust: Patterns of class and function paths that may be imported beside rlpipe's.

    Raises:
        SpecError: The policy is slim, or the optimizer cannot be built.
        UntrustedClassError: A class or function that nobody vouched for.
    """

    def __init__(self, policy: Policy, training: TrainingSpec, *, trust: tuple[str, ...] = ()) -> None:
        if policy.module.inference_only:
            raise SpecError(
                "a policy that was built for inference only cannot be trained",
                expected="a policy with its training part",
                found="inference_only=True",
                fix="build it with inference_only=False",
            )
        self.training, self.trust = training, trust
        self.loss = training.build_loss(trust=trust)
        self.step_count = 0
        self.adopt(policy)

    def adopt(self, policy: Policy) -> None:
        """Train this policy from now on, with a fresh optimizer."""
        self.policy, self._copy = policy, OwnCopy(policy)
        self.named = named_parameters(policy.module)
        self.optimizer = self.training.build_optimizer(self.named, trust=self.trust)
        self.scheduler = self.training.build_scheduler(self.optimizer, trust=self.trust)

    def _keep_up(self) -> None:
        """Train the parameters that the module has now, such as a layer that was put in or is shared since.

        What is known of parameters that stayed is kept; of the others the optimizer starts anew.
        """
        known, now = self.named, named_parameters(self.policy.module)
        if known.keys() == now.keys() and all(known[name] is parameter for name, parameter in now.items()):
            return
        saved, schedule = optimizer_state(self.optimizer, known), self.scheduler and self.scheduler.state_dict()
        stayed = {name for name, parameter in now.items() if known.get(name) is parameter}
        moments = {name: entry if name in stayed else ({},) for name, entry in to_dotted(saved["moments"]).items()}
        self.adopt(self.policy)
        load_optimizer_state(self.optimizer, self.named, {**saved, "moments": from_dotted(moments)})
        if self.scheduler is not None:
            self.scheduler.load_state_dict(schedule)

    def update(self, batch: Mapping[str, Any]) -> float:
        """One step down the gradient of the loss.

        Args:
            batch: What the loss reads; arrays become tensors on the module's device.

        Returns:
            The loss before the step.

        Raises:
            SpecError: The loss is no finite scalar.
        """
        self._keep_up()
        module = self.policy.module
        found = to_device(batch, place_of(module))
        losses: list[torch.Tensor] = []

        def closure() -> torch.Tensor:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss(module, found)
            _require_scalar(loss, self.training.to_json()["loss"])
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
            return loss

        with _training(module):
            self.optimizer.step(closure)  # type: ignore[arg-type]
        self._schedule(losses[0])
        self.step_count += 1
        self.policy.metadata = {**self.policy.metadata, "trained": True}
        return float(losses[0])

    def _schedule(self, loss: torch.Tensor) -> None:
        if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            self.scheduler.step(float(loss))
        elif self.scheduler is not None:
            self.scheduler.step()

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Settings of the optimizer and its schedule, to look at and to change."""
        return Hyperparameters(self.optimizer, self.scheduler, self.named)

    def get_hyperparameters(self) -> dict[str, Any]:
        """Settings of the optimizer in force: name -> value, or a list with one for each group where they differ."""
        return self.hyperparameters.in_force()

    def set_hyperparameters(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Put settings into the groups of the optimizer; says what changed. See `Hyperparameters`.

        Raises:
            SpecError: See `check_hyperparameters`; nothing was changed.
        """
        self.check_hyperparameters(values)
        return self.hyperparameters.change(values)

    def check_hyperparameters(self, values: Mapping[str, Any]) -> None:
        """Refuse settings that the optimizer could not go on with; nothing is changed.

        Raises:
            SelectionError: A glob that matches no parameter.
            SpecError: It has no such setting, refuses the value, or would need what was not kept so far.
        """
        self._keep_up()
        for change in self.hyperparameters.planned(values):
            require_accepted(self.training, self.optimizer, {change.name: change.value}, trust=self.trust)
            if change.name != "lr":
                self._require_moments(change)

    def _require_moments(self, change: Change) -> None:
        for group in (self.optimizer.param_groups[place] for place in change.places):
            settings = {**{name: value for name, value in group.items() if name != "params"}, change.name: change.value}
            for parameter in group["params"]:
                own = self.optimizer.state.get(parameter, {})
                if lacking := own and self._kept_names(settings, parameter) - own.keys():
                    raise SpecError(
                        f"{type(self.optimizer).__qualname__} cannot go on with {change.name}={change.value}",
                        expected=f"{', '.join(sorted(lacking))} of each parameter",
                        found="nothing: they were not kept so far",
                        fix=f"leave {change.name} as it was, or begin with a new learner",
                    )

    def get_checkpointable_components(self) -> list[tuple[str, Restorable]]:
        """The policy, with a copy of its own on disk."""
        return [(POLICY, self._copy)]

    def get_spec(self) -> Spec:
        """See `Restorable`."""
        return Spec(class_path_of(type(self)), self.training.to_json(), self.training.options())

    def get_own_state(self) -> State:
        """Moments and settings of the optimizer, the scheduler, the count of steps, and what is trained."""
        self._keep_up()
        scheduler = {} if self.scheduler is None else self.scheduler.state_dict()
        return {
            **optimizer_state(self.optimizer, self.named),
            "scheduler": (kept(scheduler, "the scheduler's state"),),
            "step_count": self.step_count,
            "trained": from_dotted({name: parameter.requires_grad for name, parameter in self.named.items()}),
        }

    def get_own_roles(self) -> Mapping[str, Role]:
        """All of it is for training."""
        keys = [join(*name.split(".")) for name in self.named]
        whole = ("groups", "scheduler", "step_count")
        return dict.fromkeys(
            [*whole, *(f"{head}/{key}" for head in ("moments", "trained") for key in keys)], "training"
        )

    def check_own_state(self, state: State) -> None:
        """See `Restorable`.

        Raises:
            StateMismatchError: The state is of another optimizer or scheduler.
        """
        self._keep_up()
        check_optimizer_state(self.optimizer, self.named, state, self._kept_names)
        (saved,) = state["scheduler"]
        _require_scheduler(self.scheduler, saved)

    def _kept_names(self, settings: State, parameter: torch.Tensor) -> frozenset[str]:
        return kept_names(self.training, settings, parameter, trust=self.trust)

    def set_own_state(self, state: State) -> None:
        """See `Restorable`."""
        load_optimizer_state(self.optimizer, self.named, state)
        (saved,) = state["scheduler"]
        if self.scheduler is not None:
            self.scheduler.load_state_dict(given_back(saved, lambda tensor: tensor))
        self.step_count = state["step_count"]
        for name, is_trained in to_dotted(state["trained"]).items():
            self.named[name].requires_grad = is_trained

    @classmethod
    def build_from(cls, spec: Spec, children: Mapping[str, Any], *, device: str, trust: tuple[str, ...]) -> Self:
        """See `Restorable`."""
        del device
        return cls(children[POLICY], TrainingSpec.from_json(spec.config, spec.options), trust=trust)


@contextmanager
def _training(module: nn.Module) -> Iterator[None]:
    """Train mode inside, and the modes of before behind it."""
    resting = [part for part in module.modules() if not part.training]
    module.train()
    try:
        yield
    finally:
        for part in resting:
            part.training = False


def _require_scheduler(scheduler: Any, saved: State) -> None:
    own = {} if scheduler is None else scheduler.state_dict()
    ours, theirs = ({name for name in names if name[0] != "_"} for names in (own, saved))
    if ours != theirs - _GONE or bool(own) != bool(saved):
        raise StateMismatchError(
            "the state does not fit the scheduler",
            missing=[f"scheduler/{name}" for name in ours - theirs],
            unexpected=[f"scheduler/{name}" for name in theirs - ours],
            fix="restore it into a learner with a scheduler of the same class",
        )


def to_device(value: Any, device: torch.device) -> Any:
    """Arrays and tensors in nested dicts, lists and tuples as tensors on a device; anything else as it is."""
    if isinstance(value, Mapping):
        return {name: to_device(item, device) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(to_device(item, device) for item in value)
    if isinstance(value, torch.Tensor) or hasattr(value, "__array_interface__"):
        return torch.as_tensor(value, device=device)
    return value


def _require_scalar(loss: Any, path: str) -> None:
    is_scalar = isinstance(loss, torch.Tensor) and loss.ndim == 0 and loss.is_floating_point()
    if not is_scalar or not torch.isfinite(loss):
        found = f"a tensor {tuple(loss.shape)}: {loss}" if isinstance(loss, torch.Tensor) else repr(loss)
        raise SpecError(
            f"the loss {path} gives nothing to minimise", expected="a finite scalar tensor", found=found[:120]
        )
