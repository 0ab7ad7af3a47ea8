"""The example of a trace source in docs/how-to/add-a-trace-source.md works, and is the tested one."""

from pathlib import Path

from tests.digests import trace_digest
from tests.tracegen.example_source import import_text
from tracegen.decode import decode
from tracegen.formats.trace import Trace

FOLDER = Path(__file__).parent


def test_lines_become_a_trace(tmp_path):
    lines = ["401000 480303 r 7ff0 8", "401003 488903 w 7ff0 8", "401006 7ff8", "401000 480303 r 7ff8 8"]
    (tmp_path / "loop.txt").write_text("\n".join(lines))
    import_text(tmp_path / "loop.txt", tmp_path / "loop.trace.h5")
    with Trace(tmp_path / "loop.trace.h5") as trace:
        assert trace.digest == trace_digest(trace.path)
        (chunk,) = trace.chunks()
        assert trace.address[chunk.static_id].tolist() == [0x401000, 0x401003, 0x401006, 0x401000]
        assert chunk.address.tolist() == [0x7FF0, 0x7FF0, 0x7FF8]
        assert chunk.is_store.tolist() == [0, 1, 0]
        program = decode(trace.address, trace.code, trace.isa)
        assert chunk.taken(program).tolist() == [0, 0, 1, 0]


def test_the_documented_example_is_this_one():
    example = (FOLDER / "example_source.py").read_text()
    body = example[example.index("def import_text") :]
    assert len(body.strip().splitlines()) <= 20
    assert body.strip() in (FOLDER.parents[1] / "docs" / "how-to" / "add-a-trace-source.md").read_text()
