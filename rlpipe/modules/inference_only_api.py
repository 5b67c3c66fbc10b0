"""What a module may lack when it only acts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from rlpipe.errors import SpecError, listed


class InferenceOnlyAPI(ABC):
    """A module that says which of its attributes it needs for training alone."""

    @abstractmethod
    def get_non_inference_attributes(self) -> list[str]:
        """Paths of attributes that a module built with `inference_only=True` does not have.

        A path is exact and may go into nested modules: "vf", "encoder.critic_encoder". One that is not there is fine.
        Unlike RLlib, the attribute at the end of the path is removed, nothing else, and nothing with a like name.
        """


def attributes_of(module: object) -> list[str] | None:
    """What the class of a module says that it needs for training alone; None if it says nothing.

    Raises:
        SpecError: It has the method, and is no `InferenceOnlyAPI`, so that nobody would ask it.
    """
    if isinstance(module, InferenceOnlyAPI):
        return module.get_non_inference_attributes()
    if hasattr(module, "get_non_inference_attributes"):
        name = type(module).__qualname__
        raise SpecError(
            f"{name}.get_non_inference_attributes() is not asked",
            expected=f"class {name}(..., InferenceOnlyAPI)",
            found=f"bases {listed(base.__qualname__ for base in type(module).__bases__)}",
            fix="add rlpipe.InferenceOnlyAPI to the bases of the class",
        )
    return None


def is_under(name: str, attributes: Collection[str]) -> bool:
    """Whether a dotted name is one of the attributes, or lies in one: "vf.weight" is under "vf", "vf2" is not."""
    parts = name.split(".")
    return any(".".join(parts[:depth]) in attributes for depth in range(1, len(parts) + 1))
