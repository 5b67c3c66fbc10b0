"""What the source says about a foreign file goes to the importer that can use it, and to no other."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpipe
from rlpipe.errors import ConfigError, ForeignFormatError
from rlpipe.pipeline.locate import locate
from rlpipe.pipeline.settings import RunSettings, SourceSettings
from rlpipe.pipeline.sources import open_source

RUN = Path(__file__).parents[1] / "golden" / "rsl_rl" / "v1_mlp" / "model_2.pt"


def opened(path: Path, **hints: object) -> SourceSettings:
    source = SourceSettings(path=str(path), hints=hints)
    open_source(RunSettings(task="info", source=source), given=source.path).report  # noqa: B018 - reading is the test
    return source


def test_a_hint_reaches_the_importer() -> None:
    opened(RUN, activation="elu")
    with pytest.raises(ForeignFormatError, match=r"source\.activation"):
        opened(RUN)


def test_an_importer_without_such_an_option_refuses_it(sb3_zip: Path) -> None:
    with pytest.raises(ConfigError, match=r"source\.activation"):
        opened(sb3_zip, activation="elu")
    with pytest.raises(ConfigError, match=r"source\.normalizer"):
        rlpipe.get_checkpoint_info(RUN, normalizer="none")


def test_a_hint_about_a_checkpoint_is_of_no_use_and_that_is_said(checkpoint: Path) -> None:
    source = SourceSettings(path=str(checkpoint), hints={"activation": "elu"})
    notes = locate(RunSettings(task="info", source=source), given=source.path).notes
    assert any("source.activation" in note for note in notes)


def test_the_functions_take_hints(tmp_path: Path) -> None:
    hints = {"activation": "elu", "joint_names": ["a", "b", "c"]}
    assert rlpipe.get_checkpoint_info(RUN, hints=hints).ok
    report = rlpipe.save(RUN, tmp_path / "made", hints=hints)
    (facts,) = report.checkpoint.policies()
    assert facts.metadata["names"] == {"action": ["a", "b", "c"]}
