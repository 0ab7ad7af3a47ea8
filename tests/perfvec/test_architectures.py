"""Every architecture keeps the contract: chunks are the whole, nothing looks ahead; the file keeps the architecture."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from perfvec.architectures import ARCHITECTURES, build, convolution
from perfvec.model import FoundationModel, Model, load_model, save_model
from support.errors import InputError
from tests.precision import with_bf16_lstm
from tracegen.features import get_schema
from uarch.machine_files import load_machine

INPUTS, WIDTH, STEPS = 5, 8, 40
NUMBERS = {"transformer": {"context": 7, "heads": 2}, "convolution": {"kernel": 3}}

every = pytest.mark.parametrize("name", ARCHITECTURES)


def architecture(name):
    torch.manual_seed(1)
    return build(name, INPUTS, WIDTH, 2, NUMBERS.get(name, {})).eval()


def stream(batch=2):
    return torch.randn(STEPS, batch, INPUTS, generator=torch.Generator().manual_seed(2))


def by_chunks(net, x, cuts):
    """Outputs and the last state of a stream that is cut there."""
    chunks, state = [], None
    for begin, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(x)], strict=True):
        r, state = net(x[begin:stop], state)
        chunks.append(r)
    return torch.cat(chunks), state


@pytest.mark.slow
@every
@pytest.mark.parametrize("gradients", [True, False])
@settings(max_examples=15)
@given(cuts=st.sets(st.integers(1, STEPS - 1)))
def test_chunks_are_the_whole_with_gradients_and_without(name, gradients, cuts):
    net, x = architecture(name), stream()
    whole, end = net(x)
    with torch.set_grad_enabled(gradients):
        joined, state = by_chunks(net, x, cuts)
    assert torch.equal(x, stream())  # the input is the caller's
    torch.testing.assert_close(joined, whole, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(state, end, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_convolution_without_gradients_in_bfloat16_and_by_chunks(monkeypatch):
    """Rounding apart, the numbers of training; by chunks of three steps those of the whole at once."""
    net, x = architecture("convolution"), stream()
    with torch.autocast("cpu", torch.bfloat16):
        trained, _ = net(x)
        with torch.inference_mode():
            once, last = net(x)
            monkeypatch.setattr(convolution, "PART_ROWS", 3 * x.shape[1])
            chunks, again = net(x)
    assert once.dtype == torch.float32 and last[1].dtype == torch.bfloat16
    torch.testing.assert_close(once, trained.detach(), rtol=3e-2, atol=3e-2)
    torch.testing.assert_close(chunks, once, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(again, last, strict=True):
        torch.testing.assert_close(ours, theirs)


@every
def test_a_later_input_changes_no_earlier_output(name):
    net, x = architecture(name), stream()
    changed = x.clone()
    changed[17] += 3.0
    one, other = net(x)[0], net(changed)[0]
    torch.testing.assert_close(one[:17], other[:17], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(one[17], other[17])


@every
def test_sequences_do_not_see_each_other(name):
    net, x = architecture(name), stream(3)
    alone = torch.cat([net(x[:, sequence : sequence + 1])[0] for sequence in range(3)], dim=1)
    torch.testing.assert_close(net(x)[0], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "reach"), [("linear", 0), ("mlp", 0), ("convolution", 3**2 - 1), ("transformer", 2 * 6)]
)
def test_memory_ends_where_it_should(name, reach):
    """An input changes the output `reach` instructions later, and none after that."""
    net, x = architecture(name), stream(1)
    changed = x.clone()
    changed[5] += 3.0
    moved = (net(x)[0] - net(changed)[0]).abs().amax(dim=(1, 2)) > 1e-6
    assert moved.nonzero().max().item() == 5 + reach


def test_attention_is_the_softmax_over_the_context():
    """One layer's attention against the sum written out; before the stream keys and values are zeros."""
    layer = architecture("transformer").layers[0]
    heads, context, size = 2, 7, WIDTH // 2
    query, key, value = (stream(4)[..., :1].expand(STEPS, 4, WIDTH) * torch.rand(WIDTH) for _ in range(3))
    padded = [torch.cat([torch.zeros(context - 1, 4, WIDTH), x]) for x in (key, value)]
    mixed = layer.attend(query, *padded).unflatten(-1, (heads, size))
    for t in (0, 3, 11, STEPS - 1):
        for head in range(heads):
            q = query.unflatten(-1, (heads, size))[t, 1, head]
            k, v = (x.unflatten(-1, (heads, size))[t : t + context, 1, head] for x in padded)
            distance = torch.arange(context - 1, -1, -1)
            logits = k @ q / size**0.5 - 2.0 ** (-8 * (head + 1) / heads) * distance
            torch.testing.assert_close(mixed[t, 1, head], logits.softmax(0) @ v, rtol=1e-4, atol=1e-5)


@every
def test_a_model_of_any_architecture_round_trips(name, tmp_path):
    schema, machine = get_schema("default"), load_machine("base")
    foundation = FoundationModel(
        schema, 1, architecture=name, width=WIDTH, layers=1, skip_connection=True, **NUMBERS.get(name, {})
    ).eval()
    torch.nn.init.normal_(foundation.skip_connection.weight)
    save_model(Model(foundation, (machine,), ()), tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors").foundation
    assert again.shape == foundation.shape
    x = torch.randn(10, 2, schema.width)
    assert torch.equal(again(x)[0], foundation(x)[0])


def test_a_skip_connection_adds_a_linear_map_of_the_normalised_features():
    foundation = FoundationModel(get_schema("default"), 1, width=WIDTH, layers=1, skip_connection=True)
    foundation.mean.fill_(0.5)
    foundation.scale.fill_(2.0)
    x = torch.randn(4, 1, foundation.schema.width)
    without, _ = foundation(x)
    assert torch.equal(without, foundation.architecture((x - 0.5) * 2.0)[0])  # it begins as nothing
    torch.nn.init.ones_(foundation.skip_connection.weight)
    expected = without + ((x - 0.5) * 2.0).sum(dim=-1, keepdim=True)
    torch.testing.assert_close(foundation(x)[0], expected)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=with_bf16_lstm if name == "lstm" else ()) for name in ARCHITECTURES]
)
def test_bfloat16_is_close_to_float32(name):
    torch.manual_seed(0)
    foundation = FoundationModel(get_schema("default"), 1, architecture=name, width=32, layers=2).eval()
    x = torch.randn(30, 2, foundation.schema.width)
    exact, half = foundation(x)[0], foundation(x, bf16=True)[0]
    assert half.dtype == torch.float32
    assert (half - exact).norm() < 0.02 * exact.norm()


@pytest.mark.parametrize(
    ("name", "numbers", "says"),
    [
        ("rnn", {}, "unknown architecture 'rnn'; this release has lstm"),
        ("lstm", {"context": 3}, "none but width and layers"),
        ("transformer", {"contexts": 3}, "it has heads, context"),
        ("transformer", {"heads": 3}, "multiple of its heads"),
        ("convolution", {"kernel": 0}, "at least 1"),
    ],
)
def test_impossible_architectures_are_named(name, numbers, says):
    with pytest.raises(InputError, match=says):
        build(name, INPUTS, WIDTH, 1, numbers)
