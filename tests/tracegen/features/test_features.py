"""Both schemas: known values by hand, invariance to chunking, shapes."""

import numpy as np
import pytest

from support.errors import InputError
from tests.uarch.programs import Instruction, Program
from tracegen.decode import decode
from tracegen.features import SCHEMAS, get_schema
from tracegen.features.default import DEFAULT
from tracegen.features.file import FeaturesFile, extract
from tracegen.formats.trace import Trace
from tracegen.statistics import branch_entropy
from tracegen.statistics.quantise import quantise
from uarch.instructions import VECTOR_REGISTERS, Flag, Operation

NAMES = [column.name for column in DEFAULT.columns]


def extracted(rows, ids, accesses=()):
    """The default schema's stored columns of a program made by hand; accesses are (position, address, size, store)."""
    program = Program([Instruction(**row) for row in rows])
    for position, number in enumerate(ids):
        program.execute(number, *(access[1:] for access in accesses if access[0] == position))
    return DEFAULT.extractor(program.static()).extract(program.chunk())


def column(stored, name):
    return stored[:, NAMES.index(name)].tolist()


def test_default_data_distances_by_hand():
    load = {"flags": Flag.LOAD, "operation": Operation.NONE}
    store = {"flags": Flag.STORE, "operation": Operation.NONE}
    lines = [(0, 0x100, 8, 0), (1, 0x140, 8, 0), (2, 0x104, 4, 1), (3, 0x13C, 8, 0)]
    stored = extracted([load, load, store, load], [0, 1, 2, 3], lines)
    assert column(stored, "load") == [255, 255, 0, quantise(np.array([1]))[0]]  # the last crosses into line 0x140
    assert column(stored, "store") == [0, 0, quantise(np.array([1]))[0], 0]
    assert column(stored, "page") == [255, 1, 1, 1]
    stored = extracted([load], [0, 0], [(0, 0x100, 8, 0), (1, 0x2000, 8, 0), (1, 0x108, 8, 0)])
    assert column(stored, "page") == [255, 255]  # an instruction has that of its farthest access


@pytest.mark.parametrize(("stride", "pattern"), [(0, 2), (64, 3), (-64, 3), (65, 4), (-65, 4)])
def test_a_stride_of_a_line_is_still_a_small_one(stride, pattern):
    load = {"flags": Flag.LOAD, "operation": Operation.NONE}
    stored = extracted([load], [0, 0, 0], [(k, 0x1000 + k * stride, 1, 0) for k in range(3)])
    assert column(stored, "pattern") == [1, 5 if stride else 2, pattern]


def test_registers_are_counted_in_parts_of_what_is_usual():
    """Two integer sources and a vector one, one destination of each."""
    program = Program([Instruction(sources=[1, 2, VECTOR_REGISTERS], destinations=[3, VECTOR_REGISTERS + 1])])
    row = dict(zip(DEFAULT.static_names, DEFAULT.static(program.static())[0].tolist(), strict=True))
    names = ("integer_sources", "other_sources", "integer_destinations", "other_destinations")
    assert [row[name] for name in names] == [0.5, 0.25, 0.5, 0.5]


def test_default_dependencies_by_hand():
    rows = [
        {"destinations": [1]},
        {"destinations": [2]},
        {"sources": [1, 2], "destinations": [3]},
        {"flags": Flag.STORE, "sources": [3], "operation": Operation.NONE},
        {"flags": Flag.LOAD, "destinations": [4], "operation": Operation.NONE},
    ]
    stored = extracted(rows, [0, 1, 2, 3, 4], [(3, 0x200, 8, 1), (4, 0x204, 4, 0)])
    code = quantise(np.arange(4))
    assert column(stored, "nearest_producer") == [0, 0, code[1], code[1], 0]
    assert column(stored, "second_producer") == [0, 0, code[2], 0, 0]
    assert column(stored, "forwarding_store") == [0, 0, 0, 0, code[1]]
    # Nominal completion: 1, 1, 2, 2 (a store computes nothing), 2 + 3 for the load that waits for the store.
    assert column(stored, "lag") == [code[0], code[0], code[0], code[0], code[0]]


@pytest.mark.parametrize(("length", "lag"), [(5, 4), (4096, 4095), (5000, 4095)])
def test_lag_counts_cycles_behind_the_front(length, lag):
    chain = {"sources": [1], "destinations": [1]}
    free = {"destinations": [2]}
    stored = extracted([chain, free], [*[0] * length, 1])
    assert column(stored, "lag")[:length] == [1] * length
    # `free` needs nothing: it could have completed in cycle 1, but no earlier than 4,096 cycles before the front.
    assert column(stored, "lag")[length] == quantise(np.array([lag]))[0]


def test_a_loop_branch_is_surprising_only_at_its_exit():
    body = {"operation": Operation.INT_ALU}
    branch = {"operation": Operation.BRANCH, "flags": Flag.BRANCH | Flag.CONDITIONAL}
    after = {}
    stored = extracted([body, branch, after], [0, 1] * 200 + [2])
    bias = np.array(column(stored, "bias_surprise"))[1::2]
    assert bias[0] == 1 + 24  # one bit: nothing is known at first
    assert bias[-2] <= 2  # taken 198 times before
    assert bias[-1] > 1 + 24 * 7  # and then not
    assert column(stored, "target")[1] == branch_entropy.TAKEN
    assert column(stored, "target")[3] == branch_entropy.TAKEN | branch_entropy.SAME_TARGET


def test_returns_match_their_calls():
    call = {"operation": Operation.BRANCH, "flags": Flag.BRANCH | Flag.CALL}
    after = {}
    ret = {"operation": Operation.BRANCH, "flags": Flag.BRANCH | Flag.RETURN | Flag.INDIRECT}
    stored = extracted([call, after, ret], [0, 2, 1])
    assert column(stored, "target")[1] & branch_entropy.RETURN_KNOWN


def test_alternating_branch_is_predictable_from_history_not_from_bias():
    branch = {"operation": Operation.BRANCH, "flags": Flag.BRANCH | Flag.CONDITIONAL}
    stored = extracted([branch, {}, {}], [0, 1, 0, 2] * 300)
    bias, local = (np.array(column(stored, name))[::2][-100:] for name in ("bias_surprise", "local_surprise"))
    assert bias.min() > 20
    assert local.max() <= 2


def test_entropies_of_known_probabilities():
    p = np.array([0.5, 0.25, 0.0, np.nan])
    assert np.allclose(branch_entropy.shannon_entropy(p), [1.0, 0.811278, 0.0, 0.0], atol=1e-6)
    assert branch_entropy.linear_entropy(p).tolist() == [1.0, 0.5, 0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_any_chunking_gives_the_same_features(data, schema):
    with Trace(data.traces / "qsort.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        whole, parts = schema.extractor(instructions), schema.extractor(instructions)
        expected = whole.extract(next(trace.chunks(60_000)))
        found = np.concatenate([parts.extract(chunk) for chunk in trace.chunks(7919, stop=60_000)])
        assert (found == expected).all()
        x = schema.expand(schema.static(instructions), next(trace.chunks(500)).static_id, found[:500])
    assert x.shape == (500, schema.width)
    assert np.isfinite(x).all()
    assert schema.static_width == len(schema.static_names)


@pytest.mark.slow
def test_a_features_file_holds_what_the_extractor_gives(data, tmp_path):
    with Trace(data.traces / "matmul.trace.h5") as trace:
        extract(trace, DEFAULT, tmp_path / "f.features.h5", progress=False)
        instructions = decode(trace.address, trace.code, trace.isa)
        chunk = next(trace.chunks(5000))
        expected = DEFAULT.extractor(instructions).extract(chunk)
        file = FeaturesFile(tmp_path / "f.features.h5")
        assert (file.trace, file.trace_digest, len(file)) == ("matmul", trace.digest, len(trace))
    static_id, stored = file.read(100, 5000)
    assert (static_id == chunk.static_id[100:]).all()
    assert (stored == expected[100:]).all()
    assert (file.static == DEFAULT.static(instructions)).all()


def test_perfvec_schema_has_51_features():
    assert SCHEMAS["perfvec-51"].width == 51


def test_foreign_schema_is_named():
    with pytest.raises(InputError, match="other"):
        get_schema("other/1")
    with pytest.raises(InputError, match="another release"):
        get_schema("default/999")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_hidden_column_is_stored_and_read_as_zeros(schema):
    names = [column.name for column in schema.columns]
    hidden = get_schema(f"{schema.name}~{names[3]}~{names[1]}/{schema.version}")
    assert get_schema(hidden.identity).identity == hidden.identity == hidden.without([names[1]]).identity
    assert hidden.width == schema.width
    ends = schema.static_width + np.cumsum([column.width for column in schema.columns])
    static, ids = np.ones((1, schema.static_width), np.float32), np.zeros(256, np.uint32)
    stored = np.tile(np.arange(256).astype(schema.dtype)[:, None], (1, len(names)))
    expected = schema.expand(static, ids, stored)
    for index in (1, 3):
        assert expected[:, ends[index - 1] : ends[index]].any()
        expected[:, ends[index - 1] : ends[index]] = 0.0
    np.testing.assert_array_equal(hidden.expand(static, ids, stored), expected)


def test_a_column_that_is_not_there_cannot_be_hidden():
    with pytest.raises(InputError, match="schema default has no column 'loads'; it has fetch, load, store"):
        get_schema("default~loads")
