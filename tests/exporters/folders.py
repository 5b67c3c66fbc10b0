"""Artifact folders of the small policies by formula, made without a policy's snapshot."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlpipe.exporters.capture import captured
from rlpipe.exporters.compare import Tolerance
from rlpipe.exporters.file_checks import facts_of
from rlpipe.exporters.folder import complete, staging
from rlpipe.exporters.golden import choose, golden, write_golden
from rlpipe.exporters.record import FORMAT, VERSION
from rlpipe.exporters.report import TargetReport
from rlpipe.exporters.target import resolve
from rlpipe.exporters.verify import perturbation, verify
from rlpipe.snapshot.spaces import to_json
from tests.exporters.memory_graphs import Stepping


def folder_of(example: Stepping, place: Path, *target_ids: str) -> Path:
    """The folder of one of `memory_graphs` with some targets, each proven."""
    truth, graph = example.reference(), example.traced()
    rows = choose(truth, perturbation(truth))
    made: dict[str, TargetReport] = {}
    with staging(place) as stage:
        for target_id in target_ids:
            target = resolve(target_id)
            (stage / target_id).mkdir()
            file, options = stage / target_id / target.FILE_NAME, target.Options()
            with captured():
                target.export(graph, file, options, {})
            tolerance = Tolerance(atol=options.atol, rtol=options.rtol)
            found = verify(target, file, example.signature, truth, tolerance, rows.tolist())
            made[target_id] = TargetReport(
                target=target_id,
                status=found.status,
                message=found.message,
                files=facts_of(stage / target_id, file),
                options=asdict(options),
                verification=found,
                levels=found.levels,
            )
        write_golden(stage, golden(truth, rows))
        complete(stage, place, described(example), made)
    return place


def described(example: Stepping) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy_id": "p1",
        "fingerprint": "0" * 12,
        "inference_hash": "0" * 64,
        "content_hash": "0" * 64,
        "model_config": {},
        "trained": True,
        "mode": "deterministic",
        "observation_space": to_json(example.observation_space),
        "action_space": to_json(example.action_space),
        "signature": example.signature.to_json(),
        "stages": {"observation": [], "action": []},
        "module": type(example.module).__name__,
    }
