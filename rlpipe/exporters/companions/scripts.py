"""`verify.py` and `example.py`: programs for people who have the folder and not rlpipe."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlpipe.exporters.checked import checked
from rlpipe.exporters.companions import verify_main
from rlpipe.exporters.signature import Signature
from rlpipe.exporters.target import acts, resolve

VERIFY_NAME, EXAMPLE_NAME = "verify.py", "example.py"
_MARK = "LOADERS: dict[str, Any] = {}\nchecked: Any = None\n# -- loaders --\n"
_OPENING = """\
here = Path(__file__).resolve().parent
policy = checked(load_{target}(str(here / "{file}")), INPUTS)
"""
_PREFERRED = ("onnx", "numpy", "c99")
"""What an example shows, if it is there: the runtimes that need least."""


def verify_script(targets: Sequence[str]) -> str:
    """The text of `verify.py` for the targets in a folder."""
    acting = [target_id for target_id in targets if acts(target_id)]
    loaders = "".join(f"{loader_source(target_id)}\n\n" for target_id in acting)
    table = ", ".join(f'"{target_id}": load_{target_id}' for target_id in acting)
    parts = f"{inspect.getsource(checked)}\n\n{loaders}LOADERS: dict[str, Any] = {{{table}}}\n"
    text = Path(verify_main.__file__).read_text(encoding="utf-8")
    head, _, tail = text.partition(_MARK)
    return _plain(f"{head}\n{parts}{tail}")


def example_script(record: Mapping[str, Any], targets: Sequence[str]) -> str | None:
    """The text of `example.py` for one of the targets in a folder; None if none of them acts."""
    acting = [target_id for target_id in (*_PREFERRED, *sorted(targets)) if target_id in targets and acts(target_id)]
    if not acting:
        return None
    chosen = acting[0]
    inputs = record["signature"]["inputs"]
    names = record.get("names", {})
    lines = [
        f'"""Acts with the policy {record["policy_id"]} through its {chosen} file.',
        "",
        *(f"    {line}" for line in _described(record)),
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from pathlib import Path",
        "from typing import Any",
        "",
        "import numpy as np",
        "",
        f"INPUTS = {_literal(inputs)}",
        *(["# What each element is.", f"NAMES = {_literal(names)}"] if names else []),
        "",
        "",
    ]
    file = record["targets"][chosen]["file"]
    opening = _OPENING.format(target=chosen, file=file)
    act = _acting_with_memory(inputs) if Signature.from_json(record["signature"]).memory else _acting(inputs)
    body = (
        f'\ndef main() -> None:\n{textwrap.indent(opening + act, "    ")}\n\nif __name__ == "__main__":\n    main()\n'
    )
    return _plain("\n".join(lines) + "\n" + inspect.getsource(checked) + "\n\n" + loader_source(chosen) + "\n" + body)


def _acting(inputs: Sequence[Mapping[str, Any]]) -> str:
    """One step."""
    names = [spec["name"] for spec in inputs]
    notes = "".join(f"# {text}\n" for text in _notes(inputs))
    return f"""\
# One observation, batch first; any batch size works. Here a golden one, in yours what the environment gives.
{notes}with np.load(here / "golden.npz") as golden:
    observation = {{name: golden["inputs/" + name][:1] for name in {names!r}}}
for name, action in policy(observation).items():
    print(name, action.dtype, action[0])
"""


def _acting_with_memory(inputs: Sequence[Mapping[str, Any]]) -> str:
    """Several steps in a row."""
    states = [spec["name"] for spec in inputs if spec["name"].startswith("state.")]
    given = [spec["name"] for spec in inputs if spec["name"] not in states]
    notes = "".join(f"# {text}\n" for text in _notes(inputs))
    return f"""\
# Steps of one episode after another, batch first; any batch size works. Here golden ones of a single row, in yours
# what the environment gives.
{notes}with np.load(here / "golden.npz") as golden:
    steps = {{name: golden["sequence/inputs/" + name][:, :1] for name in {given!r}}}
# The memory: zeros before the first step, then what the policy gave the step before. episode_start is True at the
# first step of every episode and puts the memory of that row back, whatever it holds; at other steps it is False.
specs = [spec for spec in INPUTS if spec["name"].startswith("state.")]
state = {{spec["name"]: np.zeros((1, *spec["shape"][1:]), spec["dtype"]) for spec in specs}}
for step in range(len(steps["episode_start"])):
    outputs = policy({{**{{name: array[step] for name, array in steps.items()}}, **state}})
    state = {{name: outputs[name + ".next"] for name in state}}
    for name, value in outputs.items():
        if not name.endswith(".next"):
            print(step, name, value.dtype, value[0])
"""


def _notes(inputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is to be known about inputs that are no observations."""
    names = {spec["name"]: spec for spec in inputs}
    found = []
    if "action_mask" in names:
        found.append("action_mask: True where a choice is allowed, for one part of the action after the other.")
    if "noise" in names:
        draw = {"normal": "rng.standard_normal(shape)", "uniform": "rng.random(shape)"}
        how = draw.get(names["noise"].get("distribution", ""), "")
        found.append(f"noise: drawn anew for every step, {how}.astype(np.float32); equal noise gives equal actions.")
    return found


def loader_source(target_id: str) -> str:
    """The target's own `load` under a name of its own."""
    source = textwrap.dedent(inspect.getsource(resolve(target_id).load))
    return re.sub(r"^def load\(", f"def load_{target_id}(", source, count=1, flags=re.MULTILINE)


def _described(record: Mapping[str, Any]) -> list[str]:
    puts = [(side, spec) for side in ("inputs", "outputs") for spec in record["signature"][side]]
    return [
        f"{side[:-1]:6} {spec['name']}: {spec['dtype']} [{', '.join(map(str, spec['shape']))}]" for side, spec in puts
    ]


def _literal(value: Any) -> str:
    """JSON as Python text, one line for each item; bounds are left out, they can be long."""
    short = (
        [{name: spec[name] for name in ("name", "dtype", "shape", "distribution") if name in spec} for spec in value]
        if isinstance(value, list)
        else value
    )
    if isinstance(short, list):
        lines = [f"    {json.dumps(item, ensure_ascii=False)},\n" for item in short]
        return f"[\n{''.join(lines)}]"
    lines = [f"    {json.dumps(key)}: {json.dumps(item, ensure_ascii=False)},\n" for key, item in short.items()]
    return f"{{\n{''.join(lines)}}}"


def _plain(text: str) -> str:
    """Without the marks that are for rlpipe's own linters and type checker."""
    return re.sub(r"  # (noqa|type: ignore)[^\n]*", "", text)
