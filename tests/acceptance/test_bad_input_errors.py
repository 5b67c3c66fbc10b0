"""Every error carries what it is about, what was expected, what was found and what to do."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Act = Callable[[Path, Path, Path], Any]


def a_manifest_with_a_foreign_byte(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    shutil.copytree(sample, folder / "copy")
    path = folder / "copy/policies/p0/manifest.json"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    return rlpipe.get_checkpoint_info(folder / "copy")


def rewritten(source: Path, target: Path, member: str, data: bytes) -> Path:
    """A zip with one member exchanged."""
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w") as write:
        for name in read.namelist():
            write.writestr(name, data if name == member else read.read(name))
    return target


def a_zip_with_broken_json(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    return rlpipe.get_checkpoint_info(rewritten(foreign / "ppo/model.zip", folder / "model.zip", "data", b"{"))


def a_zip_with_empty_weights(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    return rlpipe.get_checkpoint_info(rewritten(foreign / "ppo/model.zip", folder / "model.zip", "policy.pth", b""))


def a_zip_with_a_wrong_checksum(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    data = (foreign / "ppo/model.zip").read_bytes()
    at = data.index(b'"policy_class"')
    (folder / "model.zip").write_bytes(data[:at] + b"X" + data[at + 1 :])
    return rlpipe.get_checkpoint_info(folder / "model.zip")


def statistics_that_are_none(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    (folder / "v.pkl").write_bytes(b"\x80\x04N.")
    return rlpipe.get_checkpoint_info(foreign / "ppo_normalised/model.zip", normalizer=str(folder / "v.pkl"))


def an_existing_target(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    rlpipe.save(sample, folder / "made")
    return rlpipe.save(sample, folder / "made")


def a_target_below_a_file(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    (folder / "file").touch()
    return rlpipe.save(sample, folder / "file" / "made")


def a_device_name_as_id(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    return rlpipe.validate_policy_id("CON")


def q_values_for_continuous_actions(sample: Path, foreign: Path, folder: Path) -> Any:
    from rlpipe import RLModuleSpec
    from rlpipe.snapshot import spaces

    ends = np.ones(2, np.float32)
    box = spaces.Box(-ends, ends, np.dtype(np.float32))
    return RLModuleSpec("rlpipe.modules.torch.dqn.DQNModule", box, box).build()


def an_observation_of_the_wrong_size(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    policy = rlpipe.Policy.from_checkpoint(sample / "policies/p1")
    assert isinstance(policy, rlpipe.Policy)
    return policy.compute_actions(np.zeros((2, 4), np.float32))


def an_unknown_policy(sample: Path, foreign: Path, folder: Path) -> Any:
    import rlpipe

    return rlpipe.Policy.from_checkpoint(sample, policy_ids=["p9"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    [
        a_manifest_with_a_foreign_byte,
        a_zip_with_broken_json,
        a_zip_with_empty_weights,
        a_zip_with_a_wrong_checksum,
        statistics_that_are_none,
        an_existing_target,
        a_target_below_a_file,
        a_device_name_as_id,
        q_values_for_continuous_actions,
        an_observation_of_the_wrong_size,
        an_unknown_policy,
    ],
)
def test_every_error_says_what_to_do(act: Act, sample: Path, foreign: Path, tmp_path: Path) -> None:
    from rlpipe.errors import RlpipeError

    with pytest.raises(RlpipeError) as caught:
        act(sample, foreign, tmp_path)
    error = caught.value
    assert [name for name in ("subject", "expected", "found", "fix") if not getattr(error, name)] == [], str(error)
