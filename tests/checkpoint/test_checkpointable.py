from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import snapshot_of
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import (
    CheckpointExistsError,
    CheckpointNotFoundError,
    ConfigError,
    IntegrityError,
    SelectionError,
    SpecError,
    StateMismatchError,
    TieError,
    UnsupportedStateError,
    UntrustedClassError,
)
from rlpipe.snapshot import diff, fingerprint
from rlpipe.snapshot.state import equal
from tests.checkpoint.components import TRUST, Net, SlimNet, Team, net, team


def same(left: Any, right: Any) -> bool:
    return diff(snapshot_of(left), snapshot_of(right)).same


class TestGetState:
    def test_own_entries_and_components_stand_side_by_side(self) -> None:
        state = team(1, 2).get_state()
        assert sorted(state) == ["epsilon", "p0", "p1"]
        assert np.array_equal(state["p1"]["pi"]["weight"], net(2).actor)

    def test_is_a_copy(self) -> None:
        live = net(1)
        state = live.get_state()
        live.actor[...] = 0
        assert np.array_equal(state["pi"]["weight"], net(1).actor)
        state["pi"]["weight"][0, 0] = 3

    @pytest.mark.parametrize("components", ["p1", ["p1"], ("p[1-9]",)])
    def test_components(self, components: Any) -> None:
        assert sorted(team(1, 2).get_state(components)) == ["p1"]

    def test_components_of_components(self) -> None:
        nested = Team({"inner": team(1, 2), "other": team(3)})
        assert {name: sorted(state) for name, state in nested.get_state("inner/p1").items()} == {"inner": ["p1"]}

    def test_not_components(self) -> None:
        assert sorted(team(1, 2).get_state(not_components="p1")) == ["epsilon", "p0"]
        assert sorted(team(1, 2, 3).get_state(["p0", "p1"], not_components=["p1"])) == ["p0"]

    @pytest.mark.parametrize("arguments", [{"components": "p7"}, {"not_components": "p7"}])
    def test_unknown_names_are_refused(self, arguments: Any) -> None:
        with pytest.raises(SelectionError, match="p7"):
            team(1, 2).get_state(**arguments)


class TestSetState:
    def test_all(self) -> None:
        live = team(1, 2)
        live.set_state(team(3, 4).get_state())
        assert same(live, team(3, 4))

    def test_of_some_components(self) -> None:
        live = team(1, 2)
        live.set_state(team(3, 4).get_state("p1"))
        assert same(live, team(1, 4))

    def test_copies(self) -> None:
        live, state = net(1), net(2).get_state()
        live.set_state(state)
        state["pi"]["weight"][...] = 0
        assert same(live, net(2))

    @pytest.mark.parametrize(
        ("state", "missing", "unexpected"),
        [
            ({}, {"epsilon", "p0/", "p1/", "p0/steps"}, set()),
            ({"epsilon": 0.1, "typo": 3}, set(), {"typo"}),
            ({"p0": {}}, {"p0/steps", "p0/pi/weight", "p0/vf/weight"}, set()),
            ({"p0": {"steps": 1}}, {"p0/pi/weight", "p0/vf/weight"}, set()),
            ({"p7": {"steps": 1}}, {"epsilon"}, {"p7/steps"}),
        ],
    )
    def test_what_does_not_fit_changes_nothing(self, state: Any, missing: set[str], unexpected: set[str]) -> None:
        live = team(1, 2)
        with pytest.raises(StateMismatchError) as caught:
            live.set_state(state)
        assert missing <= set(caught.value.missing)
        assert set(caught.value.unexpected) == unexpected
        assert same(live, team(1, 2))

    def test_another_type_is_told(self) -> None:
        with pytest.raises(StateMismatchError, match="float expected, int found"):
            team(1).set_state({"epsilon": 1})

    def test_another_dtype_is_told(self) -> None:
        state = net(1).get_state()
        state["pi"]["weight"] = state["pi"]["weight"].astype("f8")
        with pytest.raises(StateMismatchError, match=r"float32 .* expected, float64"):
            net(1).set_state(state)

    def test_what_is_no_state_is_told(self) -> None:
        with pytest.raises(UnsupportedStateError, match="epsilon"):
            team(1).set_state({"epsilon": object()})


class TestSharedArrays:
    """What a restore does not name must not change with what it names."""

    def sharing(self, *seeds: int) -> Team:
        made = team(*seeds)
        made.nets["p1"].actor = made.nets["p0"].actor
        return made

    def test_a_state_of_all_that_share(self) -> None:
        live, source = self.sharing(1, 2, 3), self.sharing(4, 5, 6)
        live.set_state({"p0": source.get_state()["p0"], "p1": source.get_state()["p1"]})
        assert equal(live.get_state()["p1"], source.get_state()["p1"])
        assert live.nets["p1"].actor is live.nets["p0"].actor
        live.set_state({"p2": source.get_state()["p2"]})

    def test_a_state_of_some_that_share(self) -> None:
        live = self.sharing(1, 2)
        with pytest.raises(TieError, match="p1/pi/weight with p0/pi/weight"):
            live.set_state({"p1": team(3, 4).get_state()["p1"]})
        assert equal(live.get_state(), self.sharing(1, 2).get_state())

    def test_one_component_that_shares(self, tmp_path: Path) -> None:
        live = self.sharing(1, 2, 3)
        path = team(4, 5, 6).save_to_path(tmp_path / "ckpt")
        with pytest.raises(TieError, match="p1/pi/weight with p0/pi/weight"):
            live.restore_from_path(f"{path}/p1", component="p1")
        assert equal(live.get_state(), self.sharing(1, 2, 3).get_state())
        live.restore_from_path(f"{path}/p2", component="p2")
        assert equal(live.get_state()["p2"], team(4, 5, 6).get_state()["p2"])


class TestPaths:
    @pytest.mark.parametrize("backend", ["hdf5", "pickle"])
    def test_save_and_restore(self, tmp_path: Path, backend: str) -> None:
        path = team(3, 4).save_to_path(tmp_path / "ckpt", backend=backend)
        assert path == str(tmp_path / "ckpt")
        live = team(1, 2)
        live.restore_from_path(path)
        assert same(live, team(3, 4))
        assert same(Team.from_checkpoint(path, trust=TRUST), team(3, 4))

    def test_without_a_path_a_new_one_is_made(self) -> None:
        first, second = net(1).save_to_path(), net(1).save_to_path()
        assert first != second
        assert same(Net.from_checkpoint(first), net(1))

    def test_nothing_is_written_over(self, tmp_path: Path) -> None:
        net(1).save_to_path(tmp_path / "ckpt")
        with pytest.raises(CheckpointExistsError):
            net(2).save_to_path(tmp_path / "ckpt")

    def test_a_checkpoint_can_be_replaced(self, tmp_path: Path) -> None:
        path = net(1).save_to_path(tmp_path / "ckpt")
        assert net(2).save_to_path(path, if_exists="replace") == path
        assert same(Net.from_checkpoint(path), net(2))

    @pytest.mark.parametrize("word", ["overwrite", "", None, True, "Replace"])
    def test_what_to_do_is_one_of_two_words(self, tmp_path: Path, word: Any) -> None:
        path = net(1).save_to_path(tmp_path / "ckpt")
        with pytest.raises(ConfigError, match="if_exists"):
            net(2).save_to_path(path, if_exists=word)
        assert same(Net.from_checkpoint(path), net(1))
        with pytest.raises(ConfigError, match="durability"):
            write_checkpoint(snapshot_of(net(2)), tmp_path / "new", durability=word)
        assert not (tmp_path / "new").exists()

    def test_one_component(self, tmp_path: Path) -> None:
        path = Path(team(3, 4).save_to_path(tmp_path / "ckpt"))
        live = team(1, 2)
        live.restore_from_path(path / "p0", component="p1")
        assert same(live, team(1, 3))
        with pytest.raises(SpecError, match="no component 'p9'"):
            live.restore_from_path(path / "p0", component="p9")

    def test_a_component_alone(self, tmp_path: Path) -> None:
        path = Path(team(3, 4).save_to_path(tmp_path / "ckpt"))
        assert same(Net.from_checkpoint(path / "p1"), net(4))

    def test_a_given_state(self, tmp_path: Path) -> None:
        live = team(1, 2)
        state = live.get_state()
        live.nets["p0"].actor[...] = 0
        live.save_to_path(tmp_path / "ckpt", state=state)
        assert same(Team.from_checkpoint(tmp_path / "ckpt", trust=TRUST), team(1, 2))

    def test_a_given_state_of_the_inference_entries(self, tmp_path: Path) -> None:
        live = SlimNet()
        live.actor[...] = 5
        live.save_to_path(tmp_path / "ckpt", state={"pi": {"weight": live.actor}})
        found = read_checkpoint(tmp_path / "ckpt")
        assert found.spec.options == {"inference_only": True}
        assert fingerprint(found) == fingerprint(snapshot_of(live))
        built = SlimNet.from_checkpoint(tmp_path / "ckpt")
        assert built.inference_only
        assert equal(built.get_state(), {"pi": {"weight": live.actor}})

    def test_a_given_state_that_does_not_fit(self, tmp_path: Path) -> None:
        with pytest.raises(StateMismatchError):
            team(1, 2).save_to_path(tmp_path / "ckpt", state=team(1, 2).get_state("p0"))
        assert not (tmp_path / "ckpt").exists()

    @pytest.mark.parametrize("call", ["restore", "build"])
    def test_damage_changes_nothing(self, tmp_path: Path, call: str) -> None:
        path = Path(team(3, 4).save_to_path(tmp_path / "ckpt"))
        data = bytearray((path / "p1" / "state.h5").read_bytes())
        data[200] ^= 1
        (path / "p1" / "state.h5").write_bytes(data)
        live = team(1, 2)
        with pytest.raises(IntegrityError):
            live.restore_from_path(path) if call == "restore" else Team.from_checkpoint(path, trust=TRUST)
        assert same(live, team(1, 2))

    def test_nothing_there(self, tmp_path: Path) -> None:
        for call in (net(1).restore_from_path, Net.from_checkpoint):
            with pytest.raises(CheckpointNotFoundError):
                call(tmp_path / "nothing")


class TestFromCheckpoint:
    def test_the_class_itself_is_trusted_and_no_other(self, tmp_path: Path) -> None:
        path = team(1).save_to_path(tmp_path / "ckpt")
        with pytest.raises(UntrustedClassError, match=r"components\.Net"):
            Team.from_checkpoint(path)

    def test_a_checkpoint_of_another_class(self, tmp_path: Path) -> None:
        path = team(1).save_to_path(tmp_path / "ckpt")
        with pytest.raises(SpecError, match="does not fit"):
            Net.from_checkpoint(path, trust=TRUST)

    def test_a_subclass(self, tmp_path: Path) -> None:
        path = SlimNet().save_to_path(tmp_path / "ckpt")
        assert isinstance(Net.from_checkpoint(path, trust=TRUST), SlimNet)

    def test_meta_opens_no_array_file(self, tmp_path: Path) -> None:
        path = Path(net(1).save_to_path(tmp_path / "ckpt"))
        (path / "state.h5").unlink()
        assert Net.from_checkpoint(path, device="meta").calls == []


def test_metadata_and_arguments() -> None:
    assert team(1).get_metadata() == {
        "format": "rlpipe-checkpoint",
        "version": 1,
        "class": "tests.checkpoint.components.Team",
        "trained": True,
    }
    assert net(1, 4).get_ctor_args_and_kwargs() == ((), {"size": 4, "is_tied": False})
    assert [name for name, _ in team(1, 2).get_checkpointable_components()] == ["p0", "p1"]
