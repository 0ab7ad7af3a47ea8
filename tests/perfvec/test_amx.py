"""A convolution's blocks on AMX's tiles against the same in float32, its rounding, and what happens without tiles."""

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from perfvec.architectures import amx, build

INPUTS = 5

HERE = Path("/proc/cpuinfo")
needs_tiles = pytest.mark.skipif(
    not HERE.exists() or "amx_bf16" not in HERE.read_text().split(), reason="the processor has no AMX"
)


def network(width=32, layers=2, kernel=3, seed=1):
    """Return a network whose weights bfloat16 represents exactly, as a rounded model's."""
    torch.manual_seed(seed)
    net = build("convolution", INPUTS, width, layers, {"kernel": kernel}).eval()
    for weight in net.parameters():
        weight.data.copy_(weight.bfloat16())
    return net


def both(net, entered, state=None):
    """(float32 by PyTorch, by tiles): outputs and states of what the first layer gives."""
    with torch.inference_mode():
        exact = net.behind_first(entered.clone(), state)
        net.freeze()
        with torch.autocast("cpu", torch.bfloat16):
            tiles = net.behind_first(entered.clone(), state)
    return exact, tiles


@needs_tiles
@pytest.mark.parametrize(("width", "kernel"), [(32, 1), (128, 4), (256, 3)])
def test_where_the_processor_has_tiles_they_are_used(width, kernel):
    amx.compiled_for(width, kernel)  # which raises with what is in the way
    net = network(width, 1, kernel)
    net.freeze()
    assert net.packed is not None


@needs_tiles
@settings(max_examples=20)
@given(
    width=st.sampled_from([32, 64, 128]),
    kernel=st.integers(1, 4),
    layers=st.integers(1, 4),
    steps=st.integers(1, 70),
    batch=st.sampled_from([1, 3, 16, 32, 33]),
    seed=st.integers(0, 99),
)
def test_the_numbers_of_float32_but_for_rounding(width, kernel, layers, steps, batch, seed):
    net = network(width, layers, kernel, seed)
    entered = torch.randn(steps, batch, width) * 3
    (exact, ends), (found, states) = both(net, entered)
    assert found.shape == exact.shape and found.dtype == torch.float32
    assert (found - exact).abs().max() < 0.03 * layers
    assert torch.equal(states[0], ends[0])  # as it came
    for index, (state, end) in enumerate(zip(states[1:], ends[1:], strict=True)):
        torch.testing.assert_close(state.float(), end, rtol=2**-7, atol=0.03 * (index + 1))


@needs_tiles
def test_more_rows_than_a_chunk():
    net = network(128, 4, 4)
    (exact, _), (found, _) = both(net, torch.randn(100, 33, 128) * 3)
    assert (found - exact).abs().max() < 0.05


@needs_tiles
@settings(max_examples=15)
@given(cut=st.integers(1, 39))
def test_chunks_are_the_whole_but_for_rounding(cut):
    net = network()
    entered = torch.randn(40, 2, 32, generator=torch.Generator().manual_seed(3)) * 3
    _, (whole, end) = both(net, entered)
    _, (one, state) = both(net, entered[:cut])
    _, (other, last) = both(net, entered[cut:], tuple(state))
    torch.testing.assert_close(torch.cat([one, other]), whole, rtol=0, atol=0.03)
    assert torch.equal(last[0], end[0])
    torch.testing.assert_close(last[1].float(), end[1].float(), rtol=2**-7, atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [pytest.param(True, marks=needs_tiles), False])
def test_rounding_is_not_off_on_average(frozen):
    """Rows that are all alike: rounding to the nearest, as in training, errs by the same in each; this errs less."""
    net = network(128, 4, 4)
    entered = torch.randn(128).expand(4096, 8, 128) * 20
    with torch.inference_mode():
        exact = net.behind_first(entered.clone(), None)[0]
        with torch.autocast("cpu", torch.bfloat16):
            nearest = entered
            for block in net.blocks:
                nearest, _ = block(nearest, None)
            if frozen:
                net.freeze()
            found = net.behind_first(entered.clone(), None)[0]
    exact, nearest, found = (r[256:].double().mean(dim=(0, 1)) for r in (exact, nearest, found))
    assert (nearest - exact).norm() > 3 * (found - exact).norm()


@needs_tiles
def test_the_same_numbers_again_and_by_several_threads():
    net = network(64, 3, 4)
    entered = torch.randn(200, 32, 64)
    _, (once, _) = both(net, entered)
    again = [None] * 4

    def work(index):
        again[index] = both(net, entered)[1][0]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(found, once) for found in again)


@needs_tiles
def test_what_is_not_a_number_stays_in_its_sequence():
    net = network(64, 2, 2)
    entered = torch.randn(20, 5, 64)
    clean = both(net, entered)[1][0]
    entered[7, 3, 11] = float("nan")
    found = both(net, entered)[1][0]
    assert found[7:11, 3].isnan().any()
    others = [0, 1, 2, 4]
    assert torch.equal(found[:, others], clean[:, others]) and torch.equal(found[:7, 3], clean[:7, 3])


@needs_tiles
def test_pytorchs_own_tiles_and_subnormals_are_left_alone():
    a, b = torch.randn(64, 128).bfloat16(), torch.randn(128, 64).bfloat16()
    before = a @ b
    both(network(), torch.randn(9, 2, 32))
    assert torch.equal(a @ b, before)
    assert float(torch.tensor(torch.finfo(torch.float32).tiny).mul(0.5)) > 0


@needs_tiles
def test_the_input_without_a_frozen_network_or_in_float32_is_pytorchs():
    net, entered = network(), torch.randn(9, 2, 32)
    with torch.inference_mode():
        exact = net.behind_first(entered.clone(), None)[0]
        net.freeze()
        assert torch.equal(net.behind_first(entered.clone(), None)[0], exact)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Keep nothing of what `kernel_for` finds."""
    amx.kernel_for.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    amx.kernel_for.cache_clear()


def test_without_tiles_pytorch_computes(elsewhere, monkeypatch):
    (elsewhere / "cpuinfo").write_text("flags : fpu avx512f avx512_bf16\n")
    monkeypatch.setattr(amx, "CPUINFO", elsewhere / "cpuinfo")
    assert amx.kernel_for(32, 3) is None
    (exact, _), (found, states) = both(network(), torch.randn(9, 2, 32))
    torch.testing.assert_close(found, exact, rtol=0.03, atol=0.03)
    assert states[1].dtype == torch.bfloat16


@pytest.mark.parametrize("script", ["exit 1", 'echo "amx.c: error: no tiles" >&2; exit 1', "exit 0"])
def test_with_a_compiler_that_cannot_pytorch_computes(elsewhere, monkeypatch, script):
    compiler = elsewhere / "cc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(elsewhere / "cache"))
    assert amx.kernel_for(32, 3) is None


def test_a_width_that_fills_no_tile_is_pytorchs(elsewhere):
    assert amx.kernel_for(40, 3) is None


def test_weights_are_packed_in_the_order_of_their_use():
    """TDPBF16PS defines it: element [i, 2·n + k] of B is row 2·i + k, column n of the factor."""
    net = network(64, 1, 3)
    block = net.blocks[0]
    packed = amx.pack(block.taps, block.out, block.dilation)
    taps, out = block.taps.weight.detach(), block.out.weight.detach()
    for group, step, gate, i, n, k in np.random.default_rng(0).integers(0, [4, 6, 2, 16, 16, 2], (50, 6)):
        assert packed.taps[group, step, gate, i, n, k] == taps[64 * gate + 16 * group + n, 32 * step + 2 * i + k]
        assert packed.taps_bias[group, gate, n] == block.taps.bias[64 * gate + 16 * group + n]
    for group, step, half, i, n, k in np.random.default_rng(1).integers(0, [2, 2, 2, 16, 16, 2], (50, 6)):
        assert packed.out[group, step, half, i, n, k] == out[32 * group + 16 * half + n, 32 * step + 2 * i + k]
