"""The importer of Stable-Baselines3 on golden files, without the library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlpipe.importers.libraries.stable_baselines3 import Options, read
from tests.conformance.importer_suite import ImporterSuite

GOLDEN = Path(__file__).parents[3] / "golden" / "sb3"


class TestStableBaselines3(ImporterSuite):
    importer_id = "stable_baselines3"
    libraries = ("stable_baselines3", "gymnasium", "gym", "cloudpickle")

    @staticmethod
    def examples() -> Mapping[str, Path]:
        return {path.stem: path for path in sorted(GOLDEN.glob("*.zip"))}


def test_files_of_old_versions_have_their_shared_layers() -> None:
    found = read(GOLDEN / "old_shared.zip", Options())
    config = found.snapshot.spec.config["module"]["model_config"]
    assert config["shared"] == {"type": "mlp", "hidden": [5], "activation": "tanh"}
    assert (config["actor"]["hidden"], config["critic"]["hidden"]) == ([4], [3])
    assert found.snapshot.metadata["source"]["version"] == "1.6.2"


def test_members_that_a_policy_does_not_need_are_named_with_the_reason() -> None:
    report = read(GOLDEN / "sac.zip", Options()).report
    skipped = dict(report.skipped)
    optimizers = {"actor.optimizer.pth", "critic.optimizer.pth", "ent_coef_optimizer.pth"}
    assert optimizers | {"system_info.txt"} <= skipped.keys()
    assert "pytorch_variables.pth: log_ent_coef" in report.imported
    assert "lr_schedule" in next(name for name in skipped if name.startswith("data: "))
