from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from rlpipe.checkpoint.async_save import AsyncSaver
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import build, object_at, restore_into, snapshot_of
from rlpipe.checkpoint.series import Series
from rlpipe.checkpoint.writer import write_checkpoint
from rlpipe.errors import (
    SelectionError,
    SpecError,
    StateMismatchError,
    TieError,
    UnsupportedStateError,
    UntrustedClassError,
)
from rlpipe.snapshot import Selection, Snapshot, Spec, diff, fingerprint
from tests.checkpoint.components import TRUST, Net, SharingTeam, SlimNet, Team, net, team

P1 = Selection(components=("p1",))


def same(left: Any, right: Any) -> bool:
    return diff(snapshot_of(left), snapshot_of(right)).same


class TestSnapshotOf:
    def test_is_what_the_object_is(self) -> None:
        snapshot = snapshot_of(team(1, 2))
        assert snapshot.spec == Spec("tests.checkpoint.components.Team")
        assert snapshot.state == {"epsilon": 0.5}
        assert list(snapshot.children) == ["p0", "p1"]
        assert snapshot.metadata == {"trained": True}
        assert snapshot.children["p1"].roles == {"pi/weight": "inference", "vf/weight": "training", "steps": "training"}

    def test_views_without_copying_and_never_writes(self) -> None:
        live = net(1)
        array = snapshot_of(live).state["pi"]["weight"]
        assert np.shares_memory(array, live.actor)
        assert not array.flags.writeable
        live.actor[0, 0] = 7

    def test_ties_stay(self) -> None:
        state = snapshot_of(net(1, is_tied=True)).state
        assert np.shares_memory(state["pi"]["weight"], state["vf"]["weight"])

    def test_names_what_cannot_be_kept(self) -> None:
        live = team(1)
        live.nets["p0"].steps = object()
        with pytest.raises(UnsupportedStateError, match="p0/steps"):
            snapshot_of(live)


class TestRestoreInto:
    def test_all(self) -> None:
        live, source = team(1, 2), team(3, 4)
        source.epsilon = 0.25
        report = restore_into(live, snapshot_of(source))
        assert same(live, source)
        assert report.kept == ()
        assert "p0/pi/weight" in report.restored

    def test_a_component_and_nothing_else(self) -> None:
        live, source = team(1, 2), team(3, 4)
        report = restore_into(live, snapshot_of(source), P1)
        assert same(live.nets["p1"], source.nets["p1"])
        assert same(live.nets["p0"], net(1))
        assert live.nets["p0"].calls == []
        assert report.restored == ("p1/pi/weight", "p1/steps", "p1/vf/weight")
        assert report.kept == ("epsilon", "p0/pi/weight", "p0/steps", "p0/vf/weight")

    def test_roles_and_keys(self) -> None:
        live = net(1)
        restore_into(live, snapshot_of(net(2)), Selection(roles=frozenset({"inference"})))
        assert np.array_equal(live.actor, net(2).actor)
        assert np.array_equal(live.critic, net(1).critic)
        restore_into(live, snapshot_of(net(3)), Selection(keys=("vf",)))
        assert np.array_equal(live.critic, net(3).critic)
        assert (live.steps, np.array_equal(live.actor, net(2).actor)) == (1, True)

    def test_twice_is_once(self) -> None:
        live = team(1, 2)
        restore_into(live, snapshot_of(team(3, 4)))
        restore_into(live, snapshot_of(live))
        assert same(live, team(3, 4))

    def test_all_that_does_not_fit_is_named_and_nothing_is_changed(self) -> None:
        live = team(1, 2)
        source = snapshot_of(team(3, 4))
        p0 = source.children["p0"]
        state = {"pi": {"weight": np.zeros((3, 5), "f4")}, "vf": {}, "steps": 1, "more": 2}
        roles: Any = dict.fromkeys(["pi/weight", "vf", "steps", "more"], "training")
        broken = replace(source, children={**source.children, "p0": replace(p0, state=state, roles=roles)})
        with pytest.raises(StateMismatchError) as caught:
            restore_into(live, broken)
        assert caught.value.missing == ("p0/vf/weight",)
        assert caught.value.unexpected == ("p0/more", "p0/vf")
        assert caught.value.mismatched == ("p0/pi/weight (float32 (3, 2) expected, float32 (3, 5) found)",)
        assert same(live, team(1, 2))

    def test_a_missing_component_is_missing(self) -> None:
        with pytest.raises(StateMismatchError) as caught:
            restore_into(team(1, 2), snapshot_of(team(1)))
        assert "p1/" in caught.value.missing

    def test_another_spec(self) -> None:
        with pytest.raises(SpecError, match="p0: the snapshot is of something else"):
            restore_into(Team({"p0": net(1, 3)}), snapshot_of(Team({"p0": net(1, 4)})))

    def test_a_refusal_by_one_component_changes_no_other(self) -> None:
        live, source = team(1, 2), team(3, 4)
        source.nets["p1"].actor[0, 0] = np.nan
        with pytest.raises(StateMismatchError, match="not finite"):
            restore_into(live, snapshot_of(source))
        assert same(live, team(1, 2))

    def test_a_pattern_that_matches_nothing(self) -> None:
        with pytest.raises(SelectionError):
            restore_into(team(1), snapshot_of(team(2)), Selection(components=("p9",)))

    def test_descriptions_are_no_arrays(self, tmp_path: Path) -> None:
        write_checkpoint(snapshot_of(net(1)), tmp_path / "ckpt")
        with pytest.raises(UnsupportedStateError, match="was not read"):
            restore_into(net(2), read_checkpoint(tmp_path / "ckpt", arrays="none"))

    def test_one_array_never_gets_two_values(self) -> None:
        live = net(1, is_tied=True)
        source = snapshot_of(live)
        values = {"pi": {"weight": np.zeros((3, 2), "f4")}, "vf": {"weight": np.ones((3, 2), "f4")}, "steps": 1}
        with pytest.raises(TieError, match="pi/weight with vf/weight"):
            restore_into(live, replace(source, state=values))
        assert same(live, net(1, is_tied=True))

    def test_part_of_a_tied_set_of_the_live_object(self) -> None:
        live = team(1, 2)
        live.nets["p1"].actor = live.nets["p0"].actor
        with pytest.raises(TieError, match="p1/pi/weight with p0/pi/weight"):
            restore_into(live, snapshot_of(team(3, 4)), P1)

    def test_lost_ties_are_told(self) -> None:
        source = team(3, 4)
        source.nets["p1"].actor = source.nets["p0"].actor
        with pytest.raises(TieError, match="p0/pi/weight with p1/pi/weight"):
            restore_into(team(1, 2), snapshot_of(source))
        live = team(1, 2)
        restore_into(live, snapshot_of(source), Selection(ties="untie"))
        assert same(live.nets["p1"], source.nets["p1"])


class TestBuild:
    def test_from_a_checkpoint_alone(self, tmp_path: Path) -> None:
        write_checkpoint(snapshot_of(team(1, 2)), tmp_path / "ckpt")
        built = build(read_checkpoint(tmp_path / "ckpt"), trust=TRUST)
        assert isinstance(built, Team)
        assert same(built, team(1, 2))

    def test_owns_its_memory(self) -> None:
        snapshot = snapshot_of(net(1))
        built = cast(Net, build(snapshot, trust=TRUST))
        assert not np.shares_memory(built.actor, snapshot.state["pi"]["weight"])
        built.actor[0, 0] = 7

    def test_an_untrusted_class(self) -> None:
        with pytest.raises(UntrustedClassError, match="the component p0 names the class"):
            build(snapshot_of(team(1)), trust=("tests.checkpoint.components.Team",))

    def test_a_class_that_is_no_component(self) -> None:
        with pytest.raises(SpecError, match="does not fit"):
            build(Snapshot(Spec("rlpipe.snapshot.spec.Spec")))

    def test_a_state_that_does_not_fit(self) -> None:
        snapshot = snapshot_of(net(1))
        with pytest.raises(StateMismatchError):
            build(replace(snapshot, state={}, roles={}), trust=TRUST)

    def test_a_spec_that_cannot_be_built(self) -> None:
        snapshot = snapshot_of(net(1))
        with pytest.raises(SpecError, match="without inputs"):
            build(replace(snapshot, spec=replace(snapshot.spec, config={"size": 0})), trust=TRUST)

    def test_meta_reads_no_array(self, tmp_path: Path) -> None:
        write_checkpoint(snapshot_of(net(1)), tmp_path / "ckpt")
        (tmp_path / "ckpt" / "state.h5").unlink()
        built = build(read_checkpoint(tmp_path / "ckpt", arrays="none"), device="meta", trust=TRUST)
        assert cast(Net, built).calls == []

    def test_meta_checks_shapes(self, tmp_path: Path) -> None:
        snapshot = snapshot_of(net(1))
        state = {**snapshot.state, "pi": {"weight": np.zeros((9, 9), "f4")}}
        write_checkpoint(replace(snapshot, state=state), tmp_path / "ckpt")
        with pytest.raises(StateMismatchError, match=r"\(9, 9\)"):
            build(read_checkpoint(tmp_path / "ckpt", arrays="none"), device="meta", trust=TRUST)

    @pytest.mark.parametrize("act", ["save", "save_later", "give", "take", "restore"])
    def test_an_object_without_numbers_gives_and_takes_none(self, tmp_path: Path, act: str) -> None:
        path = team(1, 2).save_to_path(tmp_path / "ckpt")
        meta = Team({"p0": Net(device="meta"), "p1": net(3)})
        acts: dict[str, Callable[[], object]] = {
            "save": lambda: meta.save_to_path(tmp_path / "other"),
            "save_later": lambda: AsyncSaver(Series(folder=tmp_path / "runs")).save(meta, step=1),
            "give": meta.get_state,
            "take": lambda: meta.set_state(team(1, 2).get_state()),
            "restore": lambda: meta.restore_from_path(path),
        }
        with pytest.raises(UnsupportedStateError, match="no numbers") as caught:
            acts[act]()
        assert caught.value.found == 'on the device "meta": p0/pi/weight, p0/vf/weight'
        assert [each.name for each in tmp_path.iterdir()] == ["ckpt"]

    def test_ties_between_components_are_made_again(self, tmp_path: Path) -> None:
        source = SharingTeam({"p0": net(1), "p1": net(2)})
        source.nets["p1"].actor = source.nets["p0"].actor
        write_checkpoint(snapshot_of(source), tmp_path / "ckpt")
        built = cast(SharingTeam, build(read_checkpoint(tmp_path / "ckpt"), trust=TRUST))
        assert built.nets["p0"].actor is built.nets["p1"].actor
        assert same(built, source)

    def test_ties_that_cannot_be_made_are_an_error(self) -> None:
        source = team(1, 2)
        source.nets["p1"].actor = source.nets["p0"].actor
        with pytest.raises(TieError, match="p0/pi/weight with p1/pi/weight"):
            build(snapshot_of(source), trust=TRUST)

    def test_the_slim_form_has_the_same_fingerprint(self) -> None:
        full = SlimNet()
        slim = SlimNet(inference_only=True)
        assert fingerprint(snapshot_of(full)) == fingerprint(snapshot_of(slim))


def test_object_at() -> None:
    live = team(1, 2)
    assert object_at(live, "") is live
    assert object_at(live, "p1") is live.nets["p1"]
    with pytest.raises(SpecError, match="p9"):
        object_at(live, "p9")
