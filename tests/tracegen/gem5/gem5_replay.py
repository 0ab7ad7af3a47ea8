"""A stand-in for gem5.opt: prints what gem5 printed of `touch`, to the debug file that the command line names.

    python gem5_replay.py -d FOLDER --debug-flags=… --debug-file=FILE SCRIPT [OPTIONS] -- PROGRAM ARGS…

Every simulation leaves a line in `runs` beside this copy; the files `fail` and `diverge` there name a machine that gem5
cannot simulate, and an address that is executed in the place of another.
"""

import gzip
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
DATA = Path(json.loads((HERE / "data.json").read_text()))


def main(words: list[str]) -> int:
    folder, script = Path(words[words.index("-d") + 1]), Path(next(word for word in words if word.endswith(".py")))
    if script.name == "version.py":
        print("version: 24.0.0.1")
        return 0
    text = script.read_text()
    with (HERE / "runs").open("a") as runs:
        runs.write(" ".join(words) + "\n")
    if (HERE / "fail").exists() and f"The machine {(HERE / 'fail').read_text()} (" in text:
        print("fatal: wbWidth is too small", file=sys.stderr)
        return 1
    core = "o3" if "O3CPU" in text else "minor"
    lines = gzip.decompress((DATA / core / "trace.out.gz").read_bytes()).decode()
    if (HERE / "diverge").exists():
        lines = lines.replace(*(HERE / "diverge").read_text().split())
    target = next(word for word in words if word.startswith("--debug-file=")).partition("=")[2]
    Path(target).write_text(lines)
    facts = json.loads((DATA / core / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({"end": facts["end"], "ended": facts["ended"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
