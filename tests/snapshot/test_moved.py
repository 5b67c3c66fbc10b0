"""A class that was renamed: what was made under its old names is found, fits, and has the same fingerprint."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpipe.checkpoint.inspect import inspect_checkpoint
from rlpipe.checkpoint.reader import read_checkpoint
from rlpipe.checkpoint.restore import build, restore_into, snapshot_of
from rlpipe.checkpoint.verify import verify_checkpoint
from rlpipe.errors import SpecError
from rlpipe.snapshot import Snapshot, Spec, moved
from rlpipe.snapshot.identity import content_hash
from tests.checkpoint.components import TRUST, Net, net
from tests.checkpoint.damage import resealed

NEW = "tests.checkpoint.components.Net"
OLD, OLDER = "tests.checkpoint.components.Old", "tests.checkpoint.gone.Oldest"


def test_nothing_moves_twice() -> None:
    assert not moved.MOVED.keys() & set(moved.MOVED.values())


def test_without_moves_nothing_changes() -> None:
    spec = Spec("a.B", {"class": "a.C"})
    assert spec.identity() == '{"class":"a.B","config":{"class":"a.C"}}'
    assert moved.with_names_of_today(spec.config) is spec.config


def test_identities_are_made_of_first_names(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Spec("a.Old", {"inside": [{"class": "a.Older"}, "text of a.Old", 3]})
    known = old.identity()
    monkeypatch.setattr(moved, "MOVED", {"a.Older": "b.C", "a.Old": "b.New", "a.Between": "b.New"})
    assert old.identity() == known
    assert Spec("a.Between", old.config).identity() != known
    new = Spec(moved.name_of_today("a.Between"), moved.with_names_of_today(old.config))
    assert new == Spec("b.New", {"inside": [{"class": "b.C"}, "text of a.Old", 3]})
    assert new.identity() == known
    assert content_hash(Snapshot(new)) == content_hash(Snapshot(old))


@pytest.mark.parametrize("name", [OLD, OLDER])
def test_a_checkpoint_from_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = snapshot_of(net(3))
    path = Path(net(3).save_to_path(tmp_path / "ckpt"))
    known = content_hash(Snapshot(Spec(OLDER, before.spec.config), before.state, before.roles))
    names = {"content_hash": known, "inference_hash": _inference(before)}
    resealed(path / "manifest.json", lambda fields: fields.update(spec={**fields["spec"], "class": name}, **names))
    monkeypatch.setattr(moved, "MOVED", {OLDER: NEW, OLD: NEW})
    assert verify_checkpoint(path).ok
    found = read_checkpoint(path)
    assert found.spec.class_path == inspect_checkpoint(path).class_path == NEW
    assert content_hash(found) == known == content_hash(snapshot_of(net(3)))
    assert isinstance(build(found, trust=TRUST), Net)
    restore_into(net(4), found)


def _inference(before: Snapshot) -> str:
    kept = {"pi": before.state["pi"]}
    return content_hash(Snapshot(Spec(OLDER, before.spec.config), kept, {"pi/weight": "inference"}))


def test_a_class_that_nobody_knows_is_named(tmp_path: Path) -> None:
    snapshot = snapshot_of(net(1))
    gone = Snapshot(Spec(OLD, snapshot.spec.config), snapshot.state, snapshot.roles)
    with pytest.raises(SpecError, match=OLD):
        build(gone, trust=TRUST)
