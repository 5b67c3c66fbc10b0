"""What a module may lack when it only acts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any


class InferenceOnlyAPI(ABC):
    """A module that says which of its attributes it needs for training alone; any class with the method is one.

    RLlib leaves the method of other classes unasked, so that copies that should only act hold everything.
    """

    @classmethod
    def __subclasshook__(cls, other: type, /) -> Any:
        if cls is not InferenceOnlyAPI:
            return NotImplemented
        return any("get_non_inference_attributes" in vars(base) for base in other.__mro__) or NotImplemented

    @abstractmethod
    def get_non_inference_attributes(self) -> list[str]:
        """Paths of attributes that a module built with `inference_only=True` does not have.

        A path is exact and may go into nested modules: "vf", "encoder.critic_encoder". One that is not there is fine.
        Unlike RLlib, the attribute at the end of the path is removed, nothing else, and nothing with a like name.
        """


def is_under(name: str, attributes: Collection[str]) -> bool:
    """Whether a dotted name is one of the attributes, or lies in one: "vf.weight" is under "vf", "vf2" is not."""
    parts = name.split(".")
    return any(".".join(parts[:depth]) in attributes for depth in range(1, len(parts) + 1))
