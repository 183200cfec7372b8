"""A policy that loads is a policy that fits; one that does not says why. What is saved comes back as it was."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from aliquot.domain import ConditionsSpace, MoleculeSpace, SequenceSpace
from aliquot.domain.spaces import BOS, EOS
from aliquot.trainer.policies import (
    Dense,
    MoE,
    Policy,
    PolicyError,
    load_policy,
    read_weights,
    save_policy,
    write_weights,
)

SPACE = SequenceSpace(alphabet="dna", min_length=1, max_length=12)
SHAPES = {
    "dense": Dense(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=16, max_positions=32),
    "moe": MoE(hidden_size=16, layers=2, heads=2, key_value_heads=1, feed_forward_size=8, experts=4, max_positions=32),
}
SPACES = {
    "molecule": (MoleculeSpace(), "O=C(Nc1ccc([N+](=O)[O-])cc1)C1CCN(C)CC1Br"),
    "sequence": (SPACE, "ACGTTG"),
    "conditions": (
        ConditionsSpace.model_validate({
            "parameters": [
                {"type": "categorical", "name": "solvent", "choices": ["ethyl acetate", "2,2-dimethyl, x", "DMF"]},
                {"type": "continuous", "name": "t", "low": 10, "high": 110, "levels": 11},
                {"type": "discrete", "name": "xt", "values": [1, 1.5, 10]},
            ]
        }),
        {"solvent": "2,2-dimethyl, x", "t": 100, "xt": 1.5},
    ),
}  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    """A small policy over SPACE, on disk."""
    folder = tmp_path / "policy"
    save_policy(load_policy("fresh", SPACE, SHAPES["dense"], seed=3), folder, "# A card\n")
    return folder


@pytest.mark.parametrize("space", [space for space, _ in SPACES.values()], ids=SPACES)
def test_a_fresh_policy_fits_every_kind_of_space_and_its_seed_decides_it(space):
    one, same, other = (load_policy("fresh", space, None, seed) for seed in (0, 0, 1))
    assert one.model.config.vocab_size == len(space.codec().vocabulary)
    assert one.context >= space.codec().max_tokens + 1
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize("shape", SHAPES)
def test_a_saved_policy_comes_back_bit_for_bit(shape, tmp_path):
    policy = load_policy("fresh", SPACE, SHAPES[shape], seed=3)
    save_policy(policy, tmp_path / "p", "# A card\n")
    again = load_policy(str(tmp_path / "p"), SPACE, None, seed=0)
    assert again.digest == policy.digest
    assert again.routing == policy.routing
    inputs = torch.tensor([[BOS, 3, 4, 5, 6]])
    assert torch.equal(again.model(input_ids=inputs).logits, policy.model(input_ids=inputs).logits)
    names = {path.name for path in (tmp_path / "p").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "README.md"} <= names
    assert [path.name for path in tmp_path.iterdir()] == ["p"]  # nothing half-made is left beside it


def test_saving_replaces_what_stood_there(saved):
    save_policy(load_policy("fresh", SPACE, SHAPES["dense"], seed=4), saved, "# Another card\n")
    assert (saved / "README.md").read_text() == "# Another card\n"
    expected = load_policy("fresh", SPACE, SHAPES["dense"], seed=4).digest
    assert load_policy(str(saved), SPACE, None, seed=0).digest == expected


@pytest.mark.parametrize("kind", SPACES)
def test_the_saved_tokenizer_speaks_as_the_codec_does(kind, tmp_path):
    space, value = SPACES[kind]
    shape = SHAPES["dense"].model_copy(update={"max_positions": 128})
    save_policy(load_policy("fresh", space, shape, seed=0), tmp_path / "p", "")
    tokenizer, design, codec = AutoTokenizer.from_pretrained(tmp_path / "p"), space.design(value), space.codec()
    assert tokenizer(design.text).input_ids == [BOS, *codec.encode(design)[:-1]]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, EOS, 0)
    if kind != "conditions":
        assert tokenizer.decode(codec.encode(design), skip_special_tokens=True) == design.text
    with pytest.raises(Exception, match="UNK"):
        tokenizer("~~")


def test_another_tool_generates_from_the_saved_folder(saved):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(saved), AutoTokenizer.from_pretrained(saved)
    output = model.generate(**tokenizer(["A"], return_tensors="pt", return_token_type_ids=False), max_new_tokens=4)
    assert output[0, :2].tolist() == [BOS, 3]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(PolicyError, match="no policy 'zink-moe': give one of fresh.* or the path of a checkpoint"):
        load_policy("zink-moe", SPACE, None, seed=0)


def test_an_architecture_is_for_fresh_policies_only(saved):
    with pytest.raises(PolicyError, match="leave `architecture` out"):
        load_policy(str(saved), SPACE, SHAPES["dense"], seed=0)


def test_a_context_too_short_for_the_space_is_said(saved):
    with pytest.raises(PolicyError, match="context of 32 tokens; the space needs 42"):
        load_policy(str(saved), SequenceSpace(alphabet="dna", max_length=40), None, seed=0)
    with pytest.raises(PolicyError, match="context of 32 tokens"):
        load_policy("fresh", SequenceSpace(alphabet="dna", max_length=40), SHAPES["dense"], seed=0)


def test_the_first_token_that_differs_is_named(saved):
    with pytest.raises(PolicyError, match="id 6 is 'T' in the checkpoint and 'U' in the space"):
        load_policy(str(saved), SequenceSpace(alphabet="rna", max_length=12), None, seed=0)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "holds no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "is not JSON"),
        (lambda f: (f / "tokenizer.json").unlink(), "there is no tokenizer.json"),
        (lambda f: (f / "model.safetensors").unlink(), r"holds no \*.safetensors"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 40), "cannot be loaded"),
        (lambda f: _change(f, model_type="mamba"), "is of type 'mamba'; supported are .*qwen3"),
        (lambda f: _change(f, num_hidden_layers=3, layer_types=None), "lacks 11 weights of a qwen3 model"),
        (lambda f: _change(f, sliding_window=8, use_sliding_window=True), "sliding-window"),
    ],
)
def test_a_checkpoint_that_cannot_be_used_says_why(saved, damage, message):
    damage(saved)
    with pytest.raises(PolicyError, match=message):
        load_policy(str(saved), SPACE, None, seed=0)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "qwen3_moe", "mixtral", "olmoe", "deepseek_v3"])
def test_every_supported_family_loads_from_a_folder(family, tiny_model, tmp_path):
    model = tiny_model(family, len(SPACE.codec().vocabulary) + 1)  # a padded embedding table is no obstacle
    save_policy(Policy.of(model, SPACE.codec(), family), tmp_path / "p", "")
    policy = load_policy(str(tmp_path / "p"), SPACE, None, seed=0)
    assert not policy.legal[:, -1].any()
    inputs = torch.tensor([[BOS, 3, 4]])
    assert torch.equal(policy.model(input_ids=inputs).logits, model(input_ids=inputs).logits)


@pytest.mark.parametrize("shape", SHAPES)
def test_published_weights_round_trip_with_tied_ones_written_once(shape, tmp_path):
    policy, other = (load_policy("fresh", SPACE, SHAPES[shape], seed) for seed in (0, 1))
    path = tmp_path / "weights" / "7.safetensors"
    write_weights(path, policy.model)
    weights = read_weights(path)
    assert weights.keys() == policy.model.state_dict().keys()
    other.model.load_state_dict(weights)
    for name, tensor in policy.model.state_dict().items():
        assert torch.equal(other.model.state_dict()[name], tensor) and weights[name].dtype == torch.float32
    once = sum(p.numel() for p in policy.model.parameters()) * 4
    assert once < path.stat().st_size < once + 16_384
    assert [p.name for p in path.parent.iterdir()] == ["7.safetensors"]


def test_weights_of_a_half_precision_model_are_published_in_float32(tmp_path):
    model = load_policy("fresh", SPACE, SHAPES["dense"], seed=0).model.bfloat16()
    write_weights(tmp_path / "w.safetensors", model)
    assert {tensor.dtype for tensor in read_weights(tmp_path / "w.safetensors").values()} == {torch.float32}


def _change(folder, **changes):
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
