"""A policy that the command names is there, or is added by a plus: a typo in its id would build one more policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from rlpipe.config import conf, schema
from rlpipe.config.findings import Findings
from rlpipe.config.overrides import Groups, values_of
from rlpipe.errors import closest, listed

_POLICIES = "algorithm.policies"


def require_known_policies(overrides: Sequence[Override], groups: Groups) -> None:
    """Refuse keys of policies that neither the chosen options nor the command itself bring, and policies that are null.

    Raises:
        ConfigError: With all findings.
    """
    _require_meant(overrides)
    named = dict(_named(overrides))
    known = _composed_ids(overrides, groups) if named and groups.is_closed else None
    if known is None:
        return
    findings = Findings()
    for policy_id, override in named.items():
        if policy_id not in known:
            near = closest(policy_id, known)
            question = f"did you mean {_POLICIES}.{near[0]}? " if near else ""
            fix = f"{question}To add a policy, put a plus before the key: '+{override.input_line}'"
            found = "a policy that does not exist"
            findings.add(f"{_POLICIES}.{policy_id}", expected=f"one of {listed(known)}", found=found, fix=fix)
    findings.raise_if_any()


def _require_meant(overrides: Sequence[Override]) -> None:
    """In a file a name with nothing behind it has the defaults; a command that says nothing means something else."""
    findings = Findings()
    for key in (key for override in overrides for key in _null_policies(override)):
        fix = f"to leave it out write '~{key}', to keep it as it is leave {key} away"
        findings.add(key, expected="a mapping with keys of the policy", found="null", fix=fix)
    if any(override.key_or_group == _POLICIES and {} in values_of(override) for override in overrides):
        found = "an empty mapping, which is laid over the policies and changes nothing"
        findings.add(_POLICIES, expected="policies", found=found, fix=f"to leave one out write '~{_POLICIES}.<id>'")
    findings.raise_if_any()


def _null_policies(override: Override) -> Iterator[str]:
    """Keys of the policies that are set to null, by themselves or in a mapping of policies."""
    key = str(override.package or override.key_or_group)
    for value in () if override.is_delete() else values_of(override):
        if key == _POLICIES and isinstance(value, Mapping):
            yield from (f"{key}.{policy_id}" for policy_id, policy in value.items() if policy is None)
        elif value is None and key.startswith(f"{_POLICIES}.") and key.count(".") == _POLICIES.count(".") + 1:
            yield key


def _named(overrides: Sequence[Override]) -> Iterator[tuple[str, Override]]:
    """Ids in keys without a plus, with the first such override, but for those that a plus added before."""
    added: set[str] = set()
    for override in overrides:
        key = override.package or override.key_or_group
        is_plain = not (override.is_add() or override.is_force_add())
        value = None if override.is_sweep_override() else override.value()
        if key == _POLICIES and isinstance(value, Mapping):
            added.update(map(str, value))
        elif key.startswith(f"{_POLICIES}."):
            policy_id = key.split(".")[2]
            if is_plain and policy_id not in added:
                added.add(policy_id)
                yield policy_id, override
            added.add(policy_id)


def _composed_ids(overrides: Sequence[Override], groups: Groups) -> tuple[str, ...] | None:
    """The ids that the chosen options bring; None if that depends on a sweep, or Hydra has something to say itself."""
    choices = [override for override in overrides if override.key_or_group in groups.names()]
    if any(choice.is_sweep_override() for choice in choices):
        return None
    schema.register()
    words = [str(choice.input_line).removeprefix("+").removeprefix("+") for choice in choices if not choice.package]
    try:
        with initialize_config_dir(config_dir=str(conf.shipped_directory()), version_base="1.3"):
            config = compose(conf.CONFIG_NAME, overrides=words)
    except HydraException:
        return None
    return tuple(str(policy_id) for policy_id in config.algorithm.policies)
