"""What every module family has to keep. A family's test subclasses this and names a few of its architectures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from rlpipe.checkpoint.restore import build, snapshot_of
from rlpipe.errors import SpecError
from rlpipe.modules.rl_module import RLModuleSpec, plain_json
from rlpipe.modules.torch.rl_module import RLModule
from rlpipe.policies.policy import Policy
from rlpipe.policies.policy_spec import PolicySpec
from rlpipe.policies.stages import default_action_stages
from rlpipe.snapshot import content_hash, inference_hash
from rlpipe.snapshot.selection import Selection, select
from rlpipe.snapshot.spaces import Space
from rlpipe.snapshot.state import arrays, equal

INFERENCE = Selection(roles=frozenset({"inference"}))
BATCHES = (1, 2, 7, 33)


@dataclass(frozen=True)
class Case:
    """One architecture of a family.

    Attributes:
        name: Name of the test.
        observations: Space of prepared observations.
        actions: Space of actions.
        config: Its model_config.
        training_names: Names at the top of its state, or paths of them, that only training needs.
        batch: Further inputs of `forward_train`, by name, each without its batch axis.
        is_recurrent: It trains on sequences.
    """

    name: str
    observations: Space
    actions: Space
    config: Mapping[str, Any] = field(default_factory=dict)
    training_names: tuple[str, ...] = ()
    batch: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    is_recurrent: bool = False


def flat(outputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The outputs, those of the memory beside the others."""
    memory = outputs.get("state_out", {})
    return {**{name: value for name, value in outputs.items() if name != "state_out"}, **memory}


class ModuleSuite(ABC):
    """Subclass as `TestPPO(ModuleSuite)`, with `cases` for its parameters."""

    @staticmethod
    @abstractmethod
    def cases() -> list[Case]:
        """The architectures to test."""

    module_class: str
    trust: tuple[str, ...] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self.cases(), ids=lambda case: case.name)

    def spec(self, case: Case) -> RLModuleSpec:
        return RLModuleSpec(self.module_class, case.observations, case.actions, model_config=case.config)

    def module(self, case: Case, seed: int = 0) -> RLModule:
        torch.manual_seed(seed)
        module = self.spec(case).build()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        return module

    def observations(self, case: Case, n: int = 5) -> torch.Tensor:
        return torch.from_numpy(np.asarray(case.observations.sample(n, np.random.default_rng(1))).copy())

    def step(self, module: RLModule, case: Case) -> dict[str, Any]:
        """A batch for `forward_inference`."""
        memory = {
            name: torch.randn(5, *np.shape(value), generator=torch.Generator().manual_seed(2))
            for name, value in module.get_initial_state().items()
        }
        return {"obs": self.observations(case), **({"state_in": memory} if memory else {})}

    def test_the_state_names_are_those_of_torch(self, case: Case) -> None:
        module = self.module(case)
        expected = {name.replace(".", "/"): tensor for name, tensor in module.state_dict().items()}
        found = arrays(module.get_state())
        assert found.keys() == expected.keys()
        for key, array in found.items():
            assert array.dtype == np.float32
            assert torch.equal(torch.from_numpy(array), expected[key])

    def test_a_state_goes_from_one_module_to_another(self, case: Case) -> None:
        one, other = self.module(case, seed=0), self.module(case, seed=1)
        assert not equal(one.get_state(), other.get_state())
        other.set_state(one.get_state())
        assert equal(one.get_state(), other.get_state())

    def test_a_state_is_a_copy(self, case: Case) -> None:
        module = self.module(case)
        state = module.get_state()
        before = {key: array.copy() for key, array in arrays(state).items()}
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.zero_()
        assert all(np.array_equal(before[key], array) for key, array in arrays(state).items())

    def test_slim_has_the_inference_keys_of_full_and_nothing_of_training(self, case: Case) -> None:
        full = self.module(case)
        slim = replace(self.spec(case), inference_only=True).build()
        kept = arrays(full.get_state(inference_only=True)).keys()
        assert kept == arrays(slim.get_state()).keys()
        removed = arrays(full.get_state()).keys() - kept
        under = (
            {key for key in arrays(full.get_state()) if key.startswith(case.training_names)}
            if case.training_names
            else set()
        )
        assert removed == under

    def test_the_inference_state_of_full_loads_into_slim_whole_and_acts_the_same(self, case: Case) -> None:
        full = self.module(case)
        slim = replace(self.spec(case), inference_only=True).build()
        slim.set_state(full.get_state(inference_only=True))
        full.eval()
        ours, theirs = (flat(module.forward_inference(self.step(module, case))) for module in (full, slim))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert full.get_initial_state().keys() == slim.get_initial_state().keys()
        assert not any(module.training for module in slim.modules())
        assert not any(parameter.requires_grad for parameter in slim.parameters())

    def test_full_slim_and_selected_have_one_identity(self, case: Case) -> None:
        full = snapshot_of(self.module(case))
        slim = select(full, INFERENCE)
        assert inference_hash(full) == inference_hash(slim)
        assert content_hash(snapshot_of(build(slim, trust=self.trust))) == content_hash(slim)
        assert snapshot_of(build(slim, trust=self.trust)).spec.options["inference_only"] is True

    def test_forward_train_reaches_every_trained_parameter(self, case: Case) -> None:
        module = self.module(case)
        batch = {name: torch.randn(5, *shape) for name, shape in case.batch.items()}
        observations = self.observations(case)
        if case.is_recurrent:
            observations, batch = (
                observations.unsqueeze(1).repeat_interleave(3, 1),
                {name: value.unsqueeze(1).repeat_interleave(3, 1) for name, value in batch.items()},
            )
        outputs = module.forward_train({"obs": observations, **batch})
        sum(output.sum() for output in flat(outputs).values() if output.requires_grad).backward()  # type: ignore[union-attr]
        trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
        assert trained - {name for name, parameter in module.named_parameters() if parameter.grad is not None} <= {
            "log_alpha"
        }

    def test_meta_has_the_same_keys_dtypes_and_shapes_and_no_memory(self, case: Case) -> None:
        meta = self.spec(case).build(device="meta")
        assert all(tensor.is_meta for tensor in meta.state_dict().values())
        expected = {key: (array.dtype, array.shape) for key, array in arrays(self.module(case).get_state()).items()}
        assert {key: (array.dtype, array.shape) for key, array in arrays(meta.get_own_state()).items()} == expected

    def test_the_spec_is_whole_and_comes_back(self, case: Case) -> None:
        module = self.module(case)
        spec = module.get_module_spec()
        assert RLModuleSpec.from_json(spec.to_json(), spec.options()).to_json() == spec.to_json()
        assert module.full_model_config(module.model_config) == module.model_config
        assert plain_json(module.full_model_config(case.config), where="config") == module.model_config

    def test_a_typing_error_in_the_config_is_named(self, case: Case) -> None:
        with pytest.raises(SpecError, match="has no field 'zz'"):
            replace(self.spec(case), model_config={**case.config, "zz": 1}).build()

    @pytest.mark.parametrize("backend", ["hdf5", "pickle"])
    def test_a_checkpoint_restores_full_slim_and_live(self, case: Case, backend: str, tmp_path: Path) -> None:
        module = self.module(case)
        path = module.save_to_path(tmp_path / "module", backend=backend)
        assert equal(RLModule.from_checkpoint(path, trust=self.trust).get_state(), module.get_state())
        slim = type(module).from_checkpoint(path, inference_only=True, trust=self.trust)
        assert equal(slim.get_state(), module.get_state(inference_only=True))
        live = self.module(case, seed=2)
        live.restore_from_path(path)
        assert equal(live.get_state(), module.get_state())

    def test_the_default_policy_exports_with_any_batch_size(self, case: Case) -> None:
        policy = self.policy(case)
        graph = policy.graph().eval()
        dynamic = (({0: Dim("batch", min=1, max=65536)},) * len(graph.input_names),)
        with torch.no_grad():
            program = torch.export.export(graph, self.inputs(policy, case, 2), dynamic_shapes=dynamic).module()
        for size in BATCHES:
            inputs = self.inputs(policy, case, size)
            found, expected = (
                made if isinstance(made, tuple) else (made,) for made in (program(*inputs), graph(*inputs))
            )
            assert found[0].shape == (size, *policy.spec.action_space.shape)  # type: ignore[attr-defined]
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
            assert policy.spec.action_space.contains(policy.step(inputs[0].numpy()).actions)

    def inputs(self, policy: Policy, case: Case, n: int) -> tuple[torch.Tensor, ...]:
        """Those of the policy's graph."""
        torch.manual_seed(n)
        memory = tuple(torch.randn(n, *port.shape) for port in policy.memory)
        return (self.observations(case, n), *memory, *((torch.rand(n) < 0.5,) if memory else ()))

    def policy(self, case: Case) -> Policy:
        module = self.module(case)
        kind: Any = module.output_kind()
        stages = default_action_stages(case.actions, kind)
        return Policy(PolicySpec(module.get_module_spec(), case.observations, case.actions, (), stages), module)
