from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpipe.errors import ForeignFormatError
from rlpipe.importers.libraries.rsl_rl import Options, read
from rlpipe.importers.libraries.rsl_rl.spelling import is_slip
from tests.importers.libraries.rsl_rl.test_importer import run_of

NAMES = st.text("abcdef_", min_size=4, max_size=12)


@given(NAMES, st.data())
def test_every_slip_is_seen(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abcxyz"))
    slips = {
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at:],
        name[:at] + letter + name[at + 1 :],
        name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
    }
    assert all(is_slip(slip, name) for slip in slips - {name})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("actor_hidden_dims", "critic_hidden_dims"),
        ("student_obs_normalization", "teacher_obs_normalization"),
        ("rnn_hidden_dim", "rnn_hidden_size"),
        ("init_noise_std", "noise_std_type"),
        ("scale", "offset"),
        ("actor", "actor"),
    ],
)
def test_other_names_are_no_slips(one: str, other: str) -> None:
    assert not is_slip(one, other)
    assert not is_slip(other, one)


CASES = [
    *(("v5_mlp", "agent", name) for name in ("actor", "clip_actions", "obs_groups", "distribution_cfg", "hidden_dims")),
    *(("v5_state", "agent", name) for name in ("activation", "class_name", "obs_normalization")),
    ("v5_student", "agent", "student"),
    *(("v5_gru", "agent", name) for name in ("rnn_type", "distribution_cfg")),
    *(("v4_mlp", "agent", name) for name in ("noise_std_type", "state_dependent_std")),
    *(("v2_lstm", "agent", name) for name in ("policy", "actor_hidden_dims", "rnn_type", "empirical_normalization")),
    *(("v3_mlp", "agent", name) for name in ("actor_obs_normalization", "actor_hidden_dims")),
    *(("v5_mlp", "env", name) for name in ("scale", "offset", "use_default_offset", "joint_names", "class_type")),
]


@pytest.mark.parametrize(("case", "file", "name"), CASES)
def test_a_misspelt_name_in_the_settings_is_refused_with_the_one_that_was_meant(
    case: str, file: str, name: str, tmp_path: Path
) -> None:
    path = run_of(case, tmp_path)
    settings = path.parent / "params" / f"{file}.yaml"
    text = settings.read_text()
    slip = name[:-2] + name[-1] + name[-2]
    spoiled = re.sub(rf"(?m)^( *){name}:", rf"\g<1>{slip}:", text)
    assert spoiled != text
    settings.write_text(spoiled)
    # What the environment said of its actions counts before what was set.
    shutil.rmtree(path.parent / "io_descriptors", ignore_errors=True)
    with pytest.raises(ForeignFormatError) as caught:
        read(path, Options(joint_names=("LF_HAA", "LF_HFE", "LF_KFE")))
    error = caught.value
    assert (error.expected, error.found) == (name, slip)
    assert error.subject.startswith(f"{file}.yaml")
