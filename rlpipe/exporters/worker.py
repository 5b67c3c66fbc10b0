"""A process that exports: reads one job a line, does it, says so, and waits for the next.

    python -P -m rlpipe.exporters.worker      jobs on stdin; a line for each on stdout, results in the job's folder

What exporters, their compilers and native code print never gets between the lines: stdout is kept aside, and what is
written there goes to stderr. It ends with its input.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

READY, DONE = "ready\n", "done\n"


def main() -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    from rlpipe.exporters.job import Job, write_result
    from rlpipe.exporters.production import Producer

    producer = Producer()
    _say(answers, READY)
    for line in sys.stdin:
        job = Job.from_line(line)
        write_result(Path(job.results), *producer.produce(job))
        _say(answers, DONE)


def _say(answers: object, text: str) -> None:
    answers.write(text)  # type: ignore[attr-defined]
    answers.flush()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
