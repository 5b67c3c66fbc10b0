"""The file that a runner of rsl_rl writes: which parts it has, under the same names for every version.

Layouts: save() in rsl_rl/runners/on_policy_runner.py (1 to 3), rsl_rl/algorithms/ppo.py and distillation.py (4, 5);
tensors: rsl_rl/modules/actor_critic*.py and student_teacher*.py (1 to 3), rsl_rl/models (4, 5).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from rlpipe.errors import ForeignFormatError, RlpipeError, listed
from rlpipe.importers.bare_arrays import file_sha256, require_file
from rlpipe.importers.restricted.archive import Archive, is_zip
from rlpipe.importers.restricted.torch_file import read_torch
from rlpipe.snapshot.dtypes import logical_name
from rlpipe.snapshot.state import Array

COMPILED = "_orig_mod."
_JOINT = "model_state_dict"
_PARTS = ("actor_state_dict", "student_state_dict")
_MARKS = (b"optimizer_state_dict", b"iter", b"infos")
_NETWORKS = (b"actor.0.weight", b"student.0.weight", b"mlp.0.weight")
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""How a file of torch before 1.6 begins: a pickle of its magic number."""

_HEAD = 2**20
_DEVIATIONS = {"std": "std", "log_std": "log_std"}
_ACTOR = {"actor.": "mlp.", "memory_a.rnn.": "rnn.", "actor_obs_normalizer.": "norm.", **_DEVIATIONS}
_CRITIC = {"critic.": "mlp.", "memory_c.rnn.": "rnn.", "critic_obs_normalizer.": "norm."}
_STUDENT = {"student.": "mlp.", "memory_s.rnn.": "rnn.", "student_obs_normalizer.": "norm.", **_DEVIATIONS}
_TEACHER = ("teacher.", "memory_t.rnn.", "teacher_obs_normalizer.")
_MODEL = {
    "mlp.": "mlp.",
    "rnn.rnn.": "rnn.",
    "obs_normalizer.": "norm.",
    "distribution.std_param": "std",
    "distribution.log_std_param": "log_std",
    **_DEVIATIONS,
}
_BESIDE = {"obs_norm_state_dict": True, "critic_obs_norm_state_dict": False, "privileged_obs_norm_state_dict": False}
"""Statistics of version 2 -> whether the acting network sees through them."""

_STATISTICS = re.compile("norm|rms|scaler")
_WHY_SKIPPED: Mapping[str, str] = MappingProxyType(
    {
        "optimizer_state_dict": "state of an optimizer; only rsl_rl can train on with it",
        "infos": "remarks of the training script",
        "rnd_state_dict": "the networks of the curiosity reward",
        "rnd_optimizer_state_dict": "state of an optimizer; only rsl_rl can train on with it",
        "teacher_state_dict": "the teacher that the student learned from",
    }
)

Tensors = Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SavedRun:
    """What a file holds, as far as a policy needs it.

    Tensors have the same names for every version: `mlp.<i>.weight`, `rnn.weight_ih_l0`, `norm._mean`, `std`, `log_std`.

    Attributes:
        name: Base name of the file.
        sha256: SHA-256 of the file, in hex.
        layout: Versions of rsl_rl that write such a file, such as "5.x".
        iteration: How many updates the policy has seen.
        distilled: Whether the policy is a student that learned from a teacher.
        acting: The actor's (student's) tensors.
        value: The critic's tensors; {} for none.
        origins: Unified name of an acting tensor -> its name in the file.
        compiled: Whether torch.compile had put its name into the keys.
        skipped: (name in the file, why it was not read).
        suspects: Parts that are no part of rsl_rl and look like statistics.
    """

    name: str
    sha256: str
    layout: str
    iteration: int
    distilled: bool
    acting: Tensors
    value: Tensors
    origins: Mapping[str, str]
    compiled: bool
    skipped: tuple[tuple[str, str], ...]
    suspects: tuple[str, ...]

    @property
    def algorithm(self) -> str:
        """In rsl_rl's words."""
        return "Distillation" if self.distilled else "PPO"

    @property
    def may_be_first(self) -> bool:
        """Whether version 1 could have written it."""
        return self.layout.startswith("1")


def is_saved_run(path: Path) -> bool:
    """Whether a file is a torch file whose top level is what a runner writes; no tensor of a zip is read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
        if is_zip(head):
            archive = Archive(path, subject=path.name)
            names = [name for name in archive.names if name.endswith("/data.pkl")]
            return len(names) == 1 and _looks_right(archive.read(names[0]))
        # A file of that age has no directory whose absence would show that it was cut.
        return head.startswith(_LEGACY) and _looks_right(head) and isinstance(_content(path), dict)
    except RlpipeError:
        return False


def _looks_right(pickled: bytes) -> bool:
    states = any(name.encode() in pickled for name in (_JOINT, *_PARTS))
    return states and all(mark in pickled for mark in _MARKS) and any(name in pickled for name in _NETWORKS)


def _content(path: Path) -> Any:
    return read_torch(path.read_bytes(), subject=path.name)


def open_run(path: Path) -> SavedRun:
    """Read a file of rsl_rl.

    Raises:
        ForeignFormatError: It is damaged, or holds another policy than the library's own; what is too much is named.
        UnsafePayloadError: It asks for more than numbers.
    """
    require_file(path)
    content = _content(path)
    if not isinstance(content, dict) or not any(isinstance(content.get(name), dict) for name in (_JOINT, *_PARTS)):
        found = listed(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise ForeignFormatError(
            f"{path.name} is no checkpoint of rsl_rl",
            expected=f"a dict with {_JOINT}, or with {' or '.join(_PARTS)}",
            found=found or "an empty dict",
            fix="name the model_<iteration>.pt of a run",
        )
    reader = _Reader(path, content)
    return reader.joint() if isinstance(content.get(_JOINT), dict) else reader.parted()


class _Reader:
    """Takes a file apart."""

    def __init__(self, path: Path, content: Mapping[Any, Any]) -> None:
        self.path = path
        self.content = content
        self.taken = {"iter"}
        self.acting: dict[str, Array] = {}
        self.value: dict[str, Array] = {}
        self.origins: dict[str, str] = {}
        self.skipped: list[tuple[str, str]] = []
        self.compiled = False

    def joint(self) -> SavedRun:
        """A file of versions 1 to 3: all networks in one dict, in version 2 with statistics beside it."""
        tensors = self._tensors(_JOINT)
        distilled = any(name.startswith("student.") for name in tensors)
        self._take(tensors, _JOINT, _STUDENT if distilled else _ACTOR)
        self.value = _renamed(tensors, {} if distilled else _CRITIC)
        teacher = [name for name in tensors if distilled and name.startswith(_TEACHER)]
        self.skipped += [(f"{_JOINT}: {name}", "the teacher that the student learned from") for name in teacher]
        inside = "norm._mean" in self.acting
        self._take_statistics(distilled=distilled)
        layout = "3.x" if inside else "2.x" if "obs_norm_state_dict" in self.taken else "1.x to 3.x"
        known = {
            *_origins(tensors, {**(_STUDENT if distilled else _ACTOR), **({} if distilled else _CRITIC)}),
            *teacher,
        }
        self._require_no_more(tensors.keys() - known, _JOINT)
        return self._run(layout, distilled=distilled)

    def _take_statistics(self, *, distilled: bool) -> None:
        """Those of version 2, which lie beside the networks."""
        for part, is_acting in _BESIDE.items():
            if part not in self.content:
                continue
            found = {f"norm.{name}": tensor for name, tensor in self._tensors(part).items()}
            if is_acting:
                self.acting |= found
                self.origins |= {name: f"{part}: {name.removeprefix('norm.')}" for name in found}
            elif distilled:
                self.skipped.append((part, "statistics of the teacher"))
            elif "norm.count" not in found or found["norm.count"].any():
                self.value |= found
            else:
                # Without observations of its own the critic was shown what the actor's statistics had made.
                self.value |= {name: array for name, array in self.acting.items() if name.startswith("norm.")}

    def parted(self) -> SavedRun:
        """A file of versions 4 and 5: a dict for each network."""
        part = next(name for name in _PARTS if isinstance(self.content.get(name), dict))
        tensors = self._tensors(part)
        origins = self._take(tensors, part, _MODEL)
        self._require_no_more(tensors.keys() - set(origins), part)
        if isinstance(self.content.get("critic_state_dict"), dict):
            critic = self._tensors("critic_state_dict")
            if critic.keys() <= set(_origins(critic, _MODEL)):
                self.value = _renamed(critic, _MODEL)
            else:
                self.skipped.append(("critic_state_dict", "a critic of a kind that is not imported"))
        new = any(origin.startswith("distribution.") for origin in origins)
        layout = "5.x" if new else "4.x" if {"std", "log_std"} & self.acting.keys() else "4.x or 5.x"
        return self._run(layout, distilled=part == "student_state_dict")

    def _take(self, tensors: Tensors, part: str, table: Mapping[str, str]) -> Mapping[str, str]:
        """Take the tensors of the acting network; name in the file -> unified name."""
        origins = _origins(tensors, table)
        self.acting = _renamed(tensors, table)
        self.origins = {unified: f"{part}: {origin}" for origin, unified in origins.items()}
        return origins

    def _run(self, layout: str, *, distilled: bool) -> SavedRun:
        rest = sorted(str(name) for name in self.content.keys() - self.taken)
        count = self.content.get("iter")
        return SavedRun(
            name=self.path.name,
            sha256=file_sha256(self.path),
            layout=layout,
            iteration=count if type(count) is int and count > 0 else 0,
            distilled=distilled,
            acting=self.acting,
            value=self.value,
            origins=self.origins,
            compiled=self.compiled,
            skipped=(*self.skipped, *((name, _WHY_SKIPPED.get(name, "no part of rsl_rl")) for name in rest)),
            suspects=tuple(name for name in rest if name not in _WHY_SKIPPED and _STATISTICS.search(name)),
        )

    def _tensors(self, part: str) -> dict[str, Array]:
        """The tensors of a dict in the file, without the name of torch.compile in theirs; floats as float32."""
        self.taken.add(part)
        found = self.content[part]
        found = found if isinstance(found, dict) else {part: found}
        names = {key: str(key).replace(COMPILED, "") for key in found}
        strange = [f"{key!r}: {type(value).__name__}" for key, value in found.items() if not _is_tensor(key, value)]
        if strange or len(set(names.values())) < len(names):
            raise ForeignFormatError(
                f"{part} of {self.path.name} is no state dict",
                expected="a name, each once, and a plain tensor in every place",
                found=listed(strange) or f"names twice, with and without {COMPILED}",
            )
        self.compiled |= any(COMPILED in str(key) for key in found)
        return {names[key]: _as_float32(tensor) for key, tensor in found.items()}

    def _require_no_more(self, left: Collection[str], part: str) -> None:
        """Refuse a network that would act otherwise without what is left; a critic does not act."""
        acting = {name for name in left if not name.startswith("critic")}
        if acting:
            images = any("cnn" in name.partition(".")[0] for name in acting)
            raise ForeignFormatError(
                f"{part} of {self.path.name} has tensors that the library's MLP and recurrent policies do not have",
                expected="an MLP, perhaps with an LSTM or a GRU before it",
                found=listed(acting),
                fix="policies with convolutions cannot be imported"
                if images
                else "build the network around rlpipe.TorchModule and load the weights into it",
            )
        if left:
            self.value = {}
            self.skipped.append((f"{part}: {listed(left)}", "a critic of a kind that is not imported"))


def _origins(tensors: Iterable[str], table: Mapping[str, str]) -> dict[str, str]:
    """Name in the file -> unified name, for those that a table of names and of their beginnings knows."""
    found = {}
    for name in tensors:
        for known, unified in table.items():
            if name == known or (known.endswith(".") and name.startswith(known)):
                found[name] = f"{unified}{name.removeprefix(known)}"
    return found


def _renamed(tensors: Tensors, table: Mapping[str, str]) -> dict[str, Array]:
    return {unified: tensors[name] for name, unified in _origins(tensors, table).items()}


def _is_tensor(key: object, value: object) -> bool:
    return isinstance(key, str) and isinstance(value, np.ndarray)


def _as_float32(array: Array) -> Array:
    """Floats as float32, as the library itself makes of them when it loads a file."""
    is_float = logical_name(array.dtype).startswith(("float", "bfloat"))
    return array.astype(np.float32) if is_float and array.dtype != np.float32 else array
