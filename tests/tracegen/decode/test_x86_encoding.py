"""Numbers within x86-64 instructions, found without a disassembler."""

import capstone
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegen.decode.native.x86_64_form import form, slow_address
from tracegen.decode.x86_64 import decode_instruction
from tracegen.decode.x86_encoding import without_numbers


def plain(code: str) -> str:
    raw = np.frombuffer(bytes.fromhex(code).ljust(16, b"\0"), np.uint8)[None]
    return without_numbers(raw)[0].tobytes()[: len(bytes.fromhex(code))].hex()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("e878563412", "e800000000"),  # call
        ("7512", "7500"),  # jne
        ("0f8578563412", "0f8500000000"),  # jne, far
        ("488b4508", "488b4501"),  # mov rax, [rbp + 8]
        ("488b4500", "488b4500"),  # mov rax, [rbp]
        ("488b8578563412", "488b8501000000"),  # mov rax, [rbp + 0x12345678]
        ("488b0578563412", "488b0501000000"),  # mov rax, [rip + 0x12345678]
        ("488b04c578563412", "488b04c501000000"),  # mov rax, [rax*8 + 0x12345678]
        ("488b4c2408", "488b4c2401"),  # mov rcx, [rsp + 8]
        ("4881c478563412", "4881c400000000"),  # add rsp, 0x12345678
        ("66c745081234", "66c745010000"),  # mov word ptr [rbp + 8], 0x3412
        ("48b8f0debc9a78563412", "48b80000000000000000"),  # movabs
        ("a178563412f0debc9a", "a10000000000000000"),  # movabs eax, [far]
        ("f20f104508", "f20f104501"),  # movsd xmm0, [rbp + 8]
        ("660f73d808", "660f73d808"),  # psrldq xmm0, 8: its microcode branches by the number
        ("660f3a0fc105", "660f3a0fc105"),  # palignr
        ("660f38004508", "660f38004501"),  # pshufb xmm0, [rbp + 8]
        ("c5f8104508", "c5f8104501"),  # vmovups xmm0, [rbp + 8]
        ("c4e27d184508", "c4e27d184501"),  # vbroadcastss ymm0, [rbp + 8]
        ("62f17c48104501", "62f17c48104501"),  # vmovups zmm0, [rbp + 64]
        ("62f17c4810450f", "62f17c48104501"),
        ("c5f877", "c5f877"),  # vzeroupper
        ("cd80", "cd80"),  # int 0x80
    ],
)
def test_numbers_are_cleared(code, expected):
    assert plain(code) == expected


FIRST = st.sampled_from("0f 48 66 c5 c4 62 8d 660f 0f38 660f38 660f3a f20f 41 488d 6641 e8 c7 81 83 f7 8f".split())


@given(FIRST.map(bytes.fromhex), st.binary(min_size=16, max_size=16))
def test_what_an_instruction_does_stays(first, rest):
    """For gem5's micro-operations and for those of a real family, of any bytes."""
    raw = (first + rest)[:16]
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    cleared = without_numbers(np.frombuffer(raw, np.uint8)[None])
    np.testing.assert_array_equal(without_numbers(cleared), cleared)
    before, after = (next(engine.disasm(one, 0, 1), None) for one in (raw, cleared[0].tobytes()))
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert before.size == after.size
        assert decode_instruction(before) == decode_instruction(after)
        assert (form(before), slow_address(before)) == (form(after), slow_address(after))
