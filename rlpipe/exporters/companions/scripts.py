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
from rlpipe.exporters.target import acts, resolve

VERIFY_NAME, EXAMPLE_NAME = "verify.py", "example.py"
_MARK = "LOADERS: dict[str, Any] = {}\nchecked: Any = None\n# -- loaders --\n"
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
    body = f"""
def main() -> None:
    here = Path(__file__).resolve().parent
    policy = checked(load_{chosen}(str(here / "{record["targets"][chosen]["file"]}")), INPUTS)
    # One observation, batch first; any batch size works. Here a golden one, in yours what the environment gives.
    with np.load(here / "golden.npz") as golden:
        observation = {{name: golden["inputs/" + name][:1] for name in {[spec["name"] for spec in inputs]!r}}}
    for name, action in policy(observation).items():
        print(name, action.dtype, action[0])


if __name__ == "__main__":
    main()
"""
    return _plain("\n".join(lines) + "\n" + inspect.getsource(checked) + "\n\n" + loader_source(chosen) + "\n" + body)


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
    """JSON as Python text; bounds are left out, they can be long."""
    short = (
        [{name: spec[name] for name in ("name", "dtype", "shape")} for spec in value]
        if isinstance(value, list)
        else value
    )
    return json.dumps(short, ensure_ascii=False)


def _plain(text: str) -> str:
    """Without the marks that are for rlpipe's own linters and type checker."""
    return re.sub(r"  # (noqa|type: ignore)[^\n]*", "", text)
