"""The public names: nothing appears or disappears unnoticed, and every one of them can be imported."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headwise

PUBLIC = [
    "AttentionSteps",
    "Cut",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "KeyValueCache",
    "Knockout",
    "Mask",
    "ModelConfig",
    "MultiHeadAttention",
    "Positions",
    "StackConfig",
    "Summary",
    "Trace",
    "Trained",
    "atlas",
    "attention",
    "attention_steps",
    "check_attention",
    "edit",
    "effect",
    "explain_kernel",
    "generate",
    "load",
    "presets",
    "record",
    "save",
    "summarize",
    "train",
    "write_page",
]
FACE = Path(headwise.__file__)


def test_the_public_names_stand_still() -> None:
    assert sorted(headwise.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_there(name: str) -> None:
    assert getattr(headwise, name) is not None
    assert name in dir(headwise)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(FACE.read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        (alias.asname, node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == {(name, f"headwise.{headwise._HOME_OF[name]}") for name in PUBLIC}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'attentoin'"):
        _ = headwise.attentoin


def test_attention_is_the_function_and_has_the_modules() -> None:
    import headwise.attention.laws
    from headwise.attention.masks import Mask

    assert callable(headwise.attention)
    assert headwise.attention.laws.__name__ == "headwise.attention.laws"
    assert Mask is headwise.Mask


def test_the_names_do_not_need_the_extras() -> None:
    """What is optional may be missing: every public name still imports."""
    blocked = ["transformers", "pyarrow", "conllu", "ray", "tensorboard", "playwright"]
    code = f"import sys\nfor name in {blocked!r}:\n    sys.modules[name] = None\n"
    code += "import headwise\nfor name in headwise.__all__:\n    getattr(headwise, name)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
