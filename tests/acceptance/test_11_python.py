"""The Python side: RLlib's names, and the program's tasks as functions that return their reports."""

from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.program import digests, roles, run_python

LAZY = """
import sys
import rlpipe
heavy = {"torch", "hydra", "omegaconf", "h5py", "gymnasium", "onnx", "onnxruntime"}
print(sorted({name.split(".")[0] for name in sys.modules} & heavy))
print(sorted(name for name in rlpipe.__all__ if not name.startswith("_") and not hasattr(rlpipe, name)))
"""


def test_import_is_light_and_every_public_name_exists(tmp_path: Path) -> None:
    assert run_python(LAZY, folder=tmp_path).splitlines() == ["[]", "[]"]


def test_checkpoint_info(sample: Path) -> None:
    import rlpipe

    info = rlpipe.get_checkpoint_info(sample)
    text = repr(info)
    assert {name for name in ("p0", "p1", "p2") if name in text} == {"p0", "p1", "p2"}


def test_a_module_and_its_slim_form(sample: Path, tmp_path: Path) -> None:
    import torch

    from rlpipe import RLModule

    component = sample / "policies" / "p0"
    full = RLModule.from_checkpoint(component)
    slim = RLModule.from_checkpoint(component, inference_only=True)
    assert not slim.training
    kept = {key for key, role in roles(component).items() if role == "inference" and not key.startswith("observation/")}
    names = {name.replace(".", "/") for name in slim.state_dict()}
    assert names == kept
    assert {name.replace(".", "/") for name in full.state_dict()} == set(roles(component))
    observations = torch.randn(7, 4)
    with torch.inference_mode():
        logits = [module.forward_inference({"obs": observations})["logits"] for module in (full, slim)]
    assert torch.equal(*logits)
    slim_keys, full_keys = (set(flat(module.get_state(inference_only=True))) for module in (slim, full))
    assert slim_keys == full_keys
    slim.set_state(full.get_state(inference_only=True))


def flat(state: dict[str, object], prefix: str = "") -> dict[str, object]:
    """Nested state with joined names."""
    found: dict[str, object] = {}
    for name, value in state.items():
        found |= flat(value, f"{prefix}{name}/") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


@pytest.mark.parametrize("backend", ["hdf5", pytest.param("pickle", marks=pytest.mark.slow)])
def test_save_to_path_and_back(sample: Path, tmp_path: Path, backend: str) -> None:
    from rlpipe import Policy, RLModule

    component = sample / "policies" / "p1"
    module = RLModule.from_checkpoint(component)
    module.save_to_path(tmp_path / "module", backend=backend)
    stored = digests(component)
    assert digests(tmp_path / "module") == stored
    policy = Policy.from_checkpoint(component)
    assert isinstance(policy, Policy)
    policy.save_to_path(tmp_path / "policy", backend=backend)
    assert digests(tmp_path / "policy") == stored
    with_other_numbers = Policy.from_checkpoint(tmp_path / "policy")
    assert isinstance(with_other_numbers, Policy)
    for parameter in with_other_numbers.module.parameters():
        parameter.data.zero_()
    observations = np.random.default_rng(1).standard_normal((33, 3)).astype(np.float32)
    assert not np.array_equal(with_other_numbers.compute_actions(observations), policy.compute_actions(observations))
    with_other_numbers.restore_from_path(tmp_path / "policy")
    np.testing.assert_array_equal(
        with_other_numbers.compute_actions(observations), policy.compute_actions(observations)
    )


def test_many_policies(sample: Path) -> None:
    from rlpipe import MultiRLModule, Policy

    policies = Policy.from_checkpoint(sample, policy_ids=["p0", "p2"])
    assert isinstance(policies, dict)
    assert sorted(policies) == ["p0", "p2"]
    modules = MultiRLModule.from_checkpoint(sample / "policies")
    assert sorted(modules.keys()) == ["p0", "p1", "p2"]


def test_states_are_copies(sample: Path) -> None:
    from rlpipe import RLModule

    module = RLModule.from_checkpoint(sample / "policies" / "p0")
    before = flat(module.get_state())
    kept = {key: np.array(value) for key, value in before.items()}
    for parameter in module.parameters():
        parameter.data.add_(1.0)
    for key, value in before.items():
        np.testing.assert_array_equal(np.array(value), kept[key])


@pytest.mark.slow
def test_a_wrong_state_changes_nothing(sample: Path) -> None:
    from rlpipe import RLModule
    from rlpipe.errors import RlpipeError

    module = RLModule.from_checkpoint(sample / "policies" / "p0")
    state = module.get_state()
    kept = {key: np.array(value) for key, value in flat(state).items()}
    other = RLModule.from_checkpoint(sample / "policies" / "p1").get_state()
    with pytest.raises(RlpipeError) as caught:
        module.set_state(other)
    assert all((caught.value.subject, caught.value.expected, caught.value.found, caught.value.fix))
    for key, value in flat(module.get_state()).items():
        np.testing.assert_array_equal(np.array(value), kept[key])


def test_functions_return_reports(sample: Path, tmp_path: Path) -> None:
    program = f"""
import rlpipe
saved = rlpipe.save({str(sample)!r}, "made", policy_ids=["p0"])
restored = rlpipe.restore("made")
exported = rlpipe.export("made", "artifacts", targets=["onnx"])
for report in (saved, restored, exported):
    print(report.ok)
"""
    assert run_python(program, folder=tmp_path).splitlines()[-3:] == ["True"] * 3
    assert len(list(tmp_path.rglob("*.onnx"))) == 1
