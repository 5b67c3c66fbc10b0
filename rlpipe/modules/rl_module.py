"""What an RL module is, as data. No torch before one is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rlpipe.checkpoint.classes import class_path_of, resolve_class
from rlpipe.errors import SpecError
from rlpipe.modules.fields import choice, refuse_unknown, wholes
from rlpipe.snapshot.spaces import Space, from_gymnasium, from_json, to_json
from rlpipe.snapshot.spec import Json

if TYPE_CHECKING:
    from rlpipe.modules.torch.rl_module import RLModule

MEMORY_DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
"""Dtypes that numpy and torch share."""

_FIELDS = ("class", "observation_space", "action_space", "model_config")
_MAY_LACK = ("state",)
"""Fields that are left out where they say nothing, so that they change no hash."""
_OPTIONS = ("inference_only", "learner_only", "non_inference_attributes")


@dataclass(frozen=True)
class RLModuleSpec:
    """What an RL module is and how to build it. The names are RLlib's.

    Attributes:
        module_class: The class, or its dotted path; a path outside rlpipe is imported only if trusted.
        observation_space: Space of the prepared observations that the module is given; gymnasium's is taken too.
        action_space: Space of the actions; gymnasium's is taken too.
        inference_only: Build it without its non-inference attributes.
        learner_only: The module is for training and never acts.
        model_config: Its architecture as plain data, checked by the class.
        non_inference_attributes: Paths of what is not needed to act; None asks the class.
        state: What it remembers through an episode: name -> {"shape": without the batch, "dtype"}. Built modules say
            it themselves, see `RLModule.get_module_spec`; {} where nobody has asked one.

    Raises:
        SpecError: `inference_only` with `learner_only`, or fields of the wrong type.
    """

    module_class: str | type
    observation_space: Space
    action_space: Space
    inference_only: bool = False
    learner_only: bool = False
    model_config: Mapping[str, Any] = field(default_factory=dict)
    non_inference_attributes: tuple[str, ...] | None = None
    state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("observation_space", "action_space"):
            object.__setattr__(self, name, space_of(getattr(self, name)))
        object.__setattr__(self, "non_inference_attributes", attribute_list(self.non_inference_attributes))
        object.__setattr__(self, "state", memory_shapes(self.state))
        require_options(inference_only=self.inference_only, learner_only=self.learner_only)

    @property
    def class_path(self) -> str:
        """Dotted path of the class."""
        return self.module_class if isinstance(self.module_class, str) else class_path_of(self.module_class)

    def build(self, *, device: str = "cpu", trust: tuple[str, ...] = ()) -> RLModule:
        """A fresh module on a device.

        Args:
            device: "cpu", "cuda:0", or "meta" for keys and shapes without numbers.
            trust: Patterns of class paths that may be imported beside rlpipe's.

        Raises:
            UntrustedClassError: The class, or one that its config names, is not trusted.
            SpecError: The class cannot be built of this spec.
        """
        from rlpipe.modules.torch.building import built_on
        from rlpipe.modules.torch.rl_module import RLModule

        kind: Any = self.module_class
        if isinstance(kind, str):
            kind = resolve_class(kind, RLModule, trust=trust)
        module: RLModule = built_on(
            device,
            lambda: kind(
                observation_space=self.observation_space,
                action_space=self.action_space,
                inference_only=self.inference_only,
                learner_only=self.learner_only,
                model_config=self.model_config,
                non_inference_attributes=self.non_inference_attributes,
                trust=trust,
            ),
        )
        if self.state and self.state != (found := module.get_module_spec().state):
            raise SpecError(
                f"{self.class_path} remembers something else than its spec says",
                expected=str(self.state),
                found=str(found),
                fix="leave state out of the spec, and ask the built module for it",
            )
        return module

    def with_inference_only(self, *, inference_only: bool) -> RLModuleSpec:
        """The same spec, built slim or whole."""
        return replace(self, inference_only=inference_only)

    def to_json(self) -> dict[str, Json]:
        """What the module computes, as plain JSON; see `options` for the rest."""
        spaces = {name: to_json(getattr(self, name)) for name in ("observation_space", "action_space")}
        config = plain_json(self.model_config, where="model_config")
        memory = {"state": plain_json(self.state, where="state")} if self.state else {}
        return {"class": self.class_path, **spaces, "model_config": config, **memory}

    def options(self) -> dict[str, Json]:
        """How it is built, as plain JSON."""
        attributes = self.non_inference_attributes
        return {
            "inference_only": self.inference_only,
            "learner_only": self.learner_only,
            "non_inference_attributes": None if attributes is None else list(attributes),
        }

    @classmethod
    def from_json(
        cls, value: Mapping[str, Json], options: Mapping[str, Json], *, where: str = "module"
    ) -> RLModuleSpec:
        """The spec of its two JSON objects, the inverse of `to_json` and `options`.

        Raises:
            SpecError: A field is missing, unknown or of the wrong type.
        """
        for names, known, place in ((value, _FIELDS, where), (options, _OPTIONS, f"options of {where}")):
            refuse_unknown(names, (*known, *_MAY_LACK) if known is _FIELDS else known, where=place)
            if missing := [name for name in known if name not in names]:
                raise SpecError(
                    f"{place} lacks {', '.join(missing)}", expected=", ".join(known), found=", ".join(names)
                )
        return cls(
            value["class"],
            from_json(value["observation_space"], where=f"{where}.observation_space"),
            from_json(value["action_space"], where=f"{where}.action_space"),
            model_config=value["model_config"],
            state=value.get("state", {}),
            **options,
        )


def space_of(space: Any) -> Space:
    """The space as rlpipe's own; gymnasium's is converted.

    Raises:
        SpaceError: It is neither.
    """
    return space if isinstance(space, Space) else from_gymnasium(space)


def memory_shapes(value: Any) -> dict[str, dict[str, Any]]:
    """What a module remembers as plain data, sorted by name: name -> {"shape": [...], "dtype": "float32"}.

    Raises:
        SpecError: It is no such mapping.
    """
    good = isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(part, Mapping) and part.keys() == {"shape", "dtype"}
        for name, part in value.items()
    )
    if not good:
        expected = 'names with {"shape": [layers, hidden], "dtype": "float32"}'
        raise SpecError("state describes no memory", expected=expected, found=repr(value)[:80])
    return {
        name: {
            "shape": list(wholes(value[name]["shape"], where=f"state.{name}.shape", least=0)),
            "dtype": choice(value[name]["dtype"], MEMORY_DTYPES, where=f"state.{name}.dtype"),
        }
        for name in sorted(value)
    }


def attribute_list(value: Any) -> tuple[str, ...] | None:
    """Attribute paths as a tuple, in order and each once, whether they came from YAML or from a class; None stays None.

    Raises:
        SpecError: It is no list of dotted names.
    """
    if value is None:
        return None
    good = isinstance(value, (list, tuple)) and all(isinstance(path, str) and all(path.split(".")) for path in value)
    if not good:
        expected = "a list of attribute paths such as encoder.critic_encoder, or null"
        raise SpecError("non_inference_attributes are no paths", expected=expected, found=repr(value)[:80])
    return tuple(dict.fromkeys(value))


def require_options(*, inference_only: Any, learner_only: Any) -> None:
    """Check that the two options are flags and not both set.

    Raises:
        SpecError: They are not, or both are.
    """
    for name, value in (("inference_only", inference_only), ("learner_only", learner_only)):
        if type(value) is not bool:
            raise SpecError(f"{name} is no flag", expected="true or false", found=repr(value)[:80])
    if inference_only and learner_only:
        raise SpecError(
            "a module cannot be inference_only and learner_only",
            expected="one of them at most",
            found="both true",
            fix="a module that only acts is inference_only, one that never acts is learner_only",
        )


def plain_json(value: Any, *, where: str) -> Any:
    """The value as fresh plain JSON: mappings become dicts, tuples lists, and classes their dotted paths.

    Raises:
        SpecError: Something that JSON cannot hold, named by its place.
    """
    if isinstance(value, Mapping):
        if strange := [name for name in value if not isinstance(name, str)]:
            raise SpecError(f"{where} has names that are no text", expected="str", found=repr(strange)[:80])
        return {name: plain_json(item, where=f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item, where=f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, type):
        return class_path_of(value)
    if value is None or type(value) in (bool, int, str) or (type(value) is float and abs(value) < float("inf")):
        return value
    expected = "plain data: numbers, text, true, false, null, lists, mappings"
    raise SpecError(f"{where} is no plain data", expected=expected, found=f"{type(value).__name__} {value!r}"[:80])


def classes_in(value: Any) -> tuple[str, ...]:
    """Dotted paths of the classes in a config: who hands over the class itself trusts it."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return tuple(path for item in value for path in classes_in(item))
    return (class_path_of(value),) if isinstance(value, type) else ()
