"""The environment that a run names: whether policies fit it, and its id recorded with those that know of none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlpipe.algorithms.env_runner import EnvSpaces, make_env, require_fit, spaces_of
from rlpipe.errors import ConfigError, EnvironmentMismatchError
from rlpipe.pipeline.lift import POLICIES, policies_of
from rlpipe.pipeline.live import spaces_of as policy_spaces
from rlpipe.snapshot.snapshot import Snapshot


def with_env(tree: Snapshot, env_id: str | None) -> tuple[Snapshot, tuple[str, ...]]:
    """The tree in which every policy without a recorded environment has this one, and what the reader should know.

    Args:
        tree: An algorithm tree.
        env_id: A gymnasium id, or None: nothing is recorded.

    Raises:
        EnvironmentMismatchError: Such a policy cannot act in it.
    """
    if env_id is None:
        return tree, ()
    known = {name: policy.metadata.get("env") for name, policy in policies_of(tree).items()}
    notes = tuple(
        f"{name} keeps its recorded environment {env}; env={env_id} is not recorded"
        for name, env in known.items()
        if env and env != env_id
    )
    fresh = {name: policy for name, policy in policies_of(tree).items() if not known[name]}
    if not fresh:
        return tree, notes
    notes += _checked(fresh, env_id)
    named = {name: replace(policy, metadata={**policy.metadata, "env": env_id}) for name, policy in fresh.items()}
    return with_policies(tree, named), notes


def with_policies(tree: Snapshot, policies: Mapping[str, Snapshot]) -> Snapshot:
    """An algorithm tree with these policies in the places of its own."""
    container = tree.children[POLICIES]
    container = replace(container, children={**container.children, **policies})
    return replace(tree, children={**tree.children, POLICIES: container})


def require_all_fit(policies: Mapping[str, EnvSpaces], env_id: str) -> None:
    """Check that each of some policies can act in an environment.

    Raises:
        ConfigError: The environment cannot be made.
        EnvironmentMismatchError: Some cannot; it names those that can.
    """
    env = make_env(env_id)
    try:
        spaces = spaces_of(env)
    finally:
        env.close()
    fitting: list[str] = []
    errors: list[EnvironmentMismatchError] = []
    for policy_id, own in policies.items():
        try:
            require_fit(own, spaces, policy_id=policy_id, env_id=env_id)
            fitting.append(policy_id)
        except EnvironmentMismatchError as error:
            errors.append(error)
    if not errors:
        return
    if fitting:
        errors[0].fix = f"leave env away, or 'policy_ids=[{','.join(fitting)}]', which fit it"
    raise errors[0]


def _checked(policies: Mapping[str, Snapshot], env_id: str) -> tuple[str, ...]:
    """Nothing if all fit; a note where the environment cannot be made here."""
    own = {name: policy_spaces(policy) for name, policy in policies.items()}
    try:
        require_all_fit({name: EnvSpaces(each.observation, each.action) for name, each in own.items()}, env_id)
    except ConfigError as error:
        return (f"env={env_id} is recorded unchecked: {error.found}",)
    return ()
