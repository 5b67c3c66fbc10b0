"""How a policy is trained, as data: its loss, its optimizer, and the schedule of its learning rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from rlpipe.algorithms.parameter_groups import parameter_groups, require_known_settings
from rlpipe.checkpoint.classes import callable_path_of, class_path_of, resolve_callable, resolve_class, with_trust
from rlpipe.errors import SpecError
from rlpipe.modules.fields import refuse_unknown
from rlpipe.modules.rl_module import plain_json
from rlpipe.snapshot.ordered import from_order, in_order
from rlpipe.snapshot.spec import Json

if TYPE_CHECKING:
    import torch

    from rlpipe.algorithms.optimizer_state import Named

Loss: TypeAlias = "Callable[[Any, Mapping[str, Any]], torch.Tensor]"
"""(module, batch) -> scalar tensor."""

_OF_TORCH = ("torch.optim.*",)
_CONFIG = ("loss", "optimizer", "scheduler")
_OPTIONS = ("optimizer_kwargs", "groups", "scheduler_kwargs")


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """How a policy is trained.

    Attributes:
        loss: A function `loss(module, batch)` that gives a scalar tensor, or its dotted path.
        optimizer: A class of torch.optim, or any other optimizer that is trusted, or its dotted path.
        optimizer_kwargs: Its arguments beside the parameters, such as {"lr": 1e-3}. Plain data.
        groups: Glob over parameter keys such as "encoder/*" -> arguments for those parameters. The first pattern that
            matches counts; the rest, if there is any, is a group of its own, the last one.
        scheduler: A class of torch.optim.lr_scheduler, or any other that is trusted, or its dotted path; None for none.
        scheduler_kwargs: Its arguments beside the optimizer. Plain data.
    """

    loss: str | Loss
    optimizer: str | type = "torch.optim.Adam"
    optimizer_kwargs: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scheduler: str | type | None = None
    scheduler_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """What trains, as plain JSON; see `options` for its numbers."""
        return {
            "loss": self.loss if isinstance(self.loss, str) else callable_path_of(self.loss),
            "optimizer": _path(self.optimizer),
            "scheduler": None if self.scheduler is None else _path(self.scheduler),
        }

    def options(self) -> dict[str, Json]:
        """The numbers to build it with, as plain JSON; those that are in force are state."""
        found = {name: plain_json(getattr(self, name), where=name) for name in _OPTIONS}
        return {**found, "groups": in_order(found["groups"], self.groups)}

    @classmethod
    def from_json(cls, value: Mapping[str, Json], options: Mapping[str, Json]) -> TrainingSpec:
        """The spec of its two JSON objects, the inverse of `to_json` and `options`.

        Raises:
            SpecError: A field is missing or unknown.
        """
        for found, known, where in ((value, _CONFIG, "training"), (options, _OPTIONS, "options of training")):
            refuse_unknown(found, known, where=where)
            if missing := [name for name in known if name not in found]:
                raise SpecError(
                    f"{where} lacks {', '.join(missing)}", expected=", ".join(known), found=str(list(found))
                )
        return cls(**value, **{**options, "groups": from_order(options["groups"], where="groups of training")})

    def build_loss(self, *, trust: tuple[str, ...] = ()) -> Loss:
        """The function.

        Raises:
            UntrustedClassError: A path that nobody vouched for; it was not imported.
            SpecError: It names no function.
        """
        if not isinstance(self.loss, str):
            return self.loss
        return resolve_callable(self.loss, trust=trust, where="the loss")

    def build_optimizer(self, named: Named, *, trust: tuple[str, ...] = ()) -> torch.optim.Optimizer:
        """A fresh optimizer over parameters.

        Args:
            named: Dotted name -> parameter; all of them, frozen ones included.
            trust: Patterns of class paths that may be imported beside torch.optim and rlpipe.

        Raises:
            UntrustedClassError: The class is neither of torch.optim nor trusted.
            SpecError: The class does not take the arguments, or there is nothing to train.
            SelectionError: A pattern of `groups` matches no parameter, or just what earlier ones took.
        """
        import torch

        kind: Any = self.optimizer
        if isinstance(kind, str):
            kind = resolve_class(
                kind, torch.optim.Optimizer, trust=with_trust(trust, *_OF_TORCH), where="the optimizer"
            )
        groups = {pattern: _arguments(settings) for pattern, settings in self.groups.items()}
        made: torch.optim.Optimizer = _built(kind, parameter_groups(named, groups), self.optimizer_kwargs)
        require_known_settings(made, groups)
        return made

    def build_scheduler(self, optimizer: torch.optim.Optimizer, *, trust: tuple[str, ...] = ()) -> Any:
        """A fresh scheduler of an optimizer, or None; see `build_optimizer`."""
        import torch

        if self.scheduler is None:
            return None
        kind: Any = self.scheduler
        if isinstance(kind, str):
            base = torch.optim.lr_scheduler.LRScheduler
            kind = resolve_class(kind, base, trust=with_trust(trust, *_OF_TORCH), where="the scheduler")
        return _built(kind, optimizer, self.scheduler_kwargs)


def _path(value: str | type) -> str:
    return value if isinstance(value, str) else class_path_of(value)


def _built(kind: Any, first: Any, kwargs: Mapping[str, Any]) -> Any:
    try:
        return kind(first, **_arguments(kwargs))
    except (TypeError, ValueError, RuntimeError) as error:
        raise SpecError(
            f"{kind.__qualname__} cannot be built of its arguments",
            expected="arguments that it takes, and parameters to train",
            found=f"{type(error).__name__}: {error}"[:300],
        ) from error


def _arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _argument(value) for name, value in values.items()}


def _argument(value: Any) -> Any:
    """A list of plain data as the tuple that torch takes for pairs, such as betas."""
    return tuple(value) if isinstance(value, list) and len(value) == 2 and _is_numbers(value) else value


def _is_numbers(value: list[Any]) -> bool:
    return all(type(item) in (int, float) for item in value)
