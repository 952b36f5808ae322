"""Models of the hub, through huggingface_hub: weights in safe formats and small text files, never a pickle."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from headwise.checkpoints.safetensors import INDEX, SINGLE, read_json
from headwise.errors import SourceError

SMALL = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.jinja",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
]
SECONDS = 10
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME = re.compile(rf"({_PART}/{_PART})(?:/((?:{_PART}/)*{_PART}\.gguf))?")


def hub_name(name: str) -> tuple[str, str | None] | None:
    """The repository and the GGUF file in it that a name such as org/name or org/name/file.gguf means."""
    match = _NAME.fullmatch(name)
    return (match[1], match[2]) if match and ".." not in name else None


def fetch(repository: str, file: str | None = None) -> Path:
    """The model in huggingface_hub's own cache, fetched when it is not there; offline mode is respected."""
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        if file is not None:
            return Path(huggingface_hub.hf_hub_download(repository, file))
        return _fetch_all(repository)
    except SourceError:
        raise
    except HFValidationError as error:
        raise SourceError(f"{repository}: is not a name the hub can have: {_line(error)}") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise SourceError(_explain(repository, error)) from error
    except Exception as error:
        # The library's transport has errors of its own, which change from version to version.
        raise SourceError(f"{repository}: the hub could not be reached: {_line(error)}") from error


def _fetch_all(repository: str) -> Path:
    import huggingface_hub
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return _whole(_cached(repository), repository)
    try:
        # Not list_repo_files: it tries six times, for 23 seconds, where a company blocks the hub.
        about = huggingface_hub.HfApi().model_info(repository, timeout=SECONDS)
        names = [file.rfilename for file in about.siblings or []]
    except Exception as error:
        if not _is_unreachable(error):
            raise
        return _whole(_cached(repository), repository)
    wanted = [name for name in names if name in SMALL]
    weights = _weights(repository, names)
    if weights == [INDEX]:
        index = read_json(Path(huggingface_hub.hf_hub_download(repository, INDEX)))
        weights += _shards(repository, index, names)
    folder = Path(huggingface_hub.snapshot_download(repository, allow_patterns=[*wanted, *map(_literal, weights)]))
    return choose(folder, repository)


def _is_unreachable(error: Exception) -> bool:
    from huggingface_hub.errors import HfHubHTTPError

    return not isinstance(error, HfHubHTTPError)


def _cached(repository: str) -> Path:
    """What was fetched before; the library would ask for all files of the repository, of which we take some."""
    import huggingface_hub

    return Path(huggingface_hub.snapshot_download(repository, allow_patterns=[], local_files_only=True))


def _whole(folder: Path, repository: str) -> Path:
    """What to open of a cached model, when its weights are there."""
    found = choose(folder, repository)
    if found.is_dir() and not any(folder.glob("*.safetensors")):
        raise SourceError(
            f"{repository}: only a part of it is in the hub's cache ({folder}), and the hub is out of reach"
        )
    return found


def _literal(name: str) -> str:
    """The name as a pattern that matches only itself."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def _weights(repository: str, names: list[str]) -> list[str]:
    """The weights to fetch: one file, the index of several, or the only GGUF file."""
    for name in (SINGLE, INDEX):
        if name in names:
            return [name]
    plain = [name for name in names if name.endswith(".safetensors") and "/" not in name]
    files = plain if len(plain) == 1 else [name for name in names if name.endswith(".gguf")]
    if len(files) == 1:
        return files
    if files:
        some = ", ".join(f"{repository}/{name}" for name in files[:8])
        raise SourceError(f"{repository}: has {len(files)} GGUF files, name one of them: {some}")
    pickles = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack"))]
    found = f"; it has {', '.join(pickles[:3])}, which can run code when opened" if pickles else ""
    raise SourceError(f"{repository}: has no .safetensors and no .gguf file{found}")


def _shards(repository: str, index: dict[str, Any], names: list[str]) -> list[str]:
    places = index.get("weight_map")
    shards = sorted({str(file) for file in places.values()}) if isinstance(places, dict) else []
    for shard in shards:
        if not shard.endswith(".safetensors") or shard not in names:
            raise SourceError(f"{repository}: {INDEX} names {shard[:80]!r}, which is no .safetensors file there")
    return shards


def choose(folder: Path, where: object) -> Path:
    """What to open of a directory: itself, or the one GGUF file when it holds no other weights."""
    if any(folder.glob("*.safetensors")) or (folder / INDEX).exists():
        return folder
    files = sorted(folder.rglob("*.gguf"))
    if len(files) == 1:
        return files[0]
    if files:
        some = ", ".join(str(file) for file in files[:8])
        raise SourceError(f"{where}: has {len(files)} GGUF files, name one of them: {some}")
    return folder


def _explain(repository: str, error: Exception) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    if isinstance(error, LocalEntryNotFoundError):
        why = "offline mode is on" if constants.HF_HUB_OFFLINE else "the hub could not be reached"
        return f"{repository}: {why}, and the model is not in the hub's cache ({constants.HF_HUB_CACHE})"
    if isinstance(error, GatedRepoError):
        return f"{repository}: its owner asks for an account and an agreement before it can be downloaded"
    if isinstance(error, RepositoryNotFoundError):
        return f"{repository}: the hub has no model of this name that you may read"
    if isinstance(error, EntryNotFoundError):
        return f"{repository}: the hub has not this file: {_line(error)}"
    return f"{repository}: the hub could not be read: {_line(error)}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def cached_models() -> list[tuple[str, Path]]:
    """Models in the hub's cache on this machine, by the same environment variables; nothing is asked of the network."""
    base = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    folder = Path(base) if base else Path(os.environ.get("HF_HOME") or "~/.cache/huggingface") / "hub"
    found: list[tuple[str, Path]] = []
    for entry in sorted(folder.expanduser().glob("models--*--*")):
        snapshots = [path for path in entry.glob("snapshots/*") if path.is_dir()]
        if snapshots:
            newest = max(snapshots, key=lambda path: path.stat().st_mtime)
            found.append((entry.name.removeprefix("models--").replace("--", "/", 1), newest))
    return found
