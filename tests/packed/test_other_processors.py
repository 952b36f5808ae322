"""The levels of the kernel for processors that are not here, on an emulator, beside plain C: where both are installed.

On Debian: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from headwise.packed import build
from headwise.packed.levels import LEVELS, available

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


def compiled(compiler: str, to: Path) -> Path:
    sources, flags = Path(build.__file__).parent, [flag for flag in build.FLAGS if flag not in ("-fPIC", "-shared")]
    program = to / "levels"
    here = Path(__file__).parent / "levels.c"
    command = [compiler, *flags, "-Wall", "-Werror", "-I", str(sources), "-o", str(program), str(here)]
    subprocess.run([*command, "-static", *build.LIBRARIES], check=True)
    return program


@pytest.mark.skipif(not available(), reason="no C compiler here")
def test_levels_of_this_processor_compute_what_plain_c_does(tmp_path: Path) -> None:
    program = compiled("cc", tmp_path)
    for level, number in LEVELS.items():
        done = subprocess.run([program, str(number)], capture_output=True, text=True, check=False)
        assert done.returncode == (0 if level in available() else 2), done.stdout


@pytest.mark.skipif(not shutil.which(COMPILER) or not shutil.which(EMULATOR), reason="no emulator of ARM here")
def test_neon_computes_what_plain_c_does(tmp_path: Path) -> None:
    program, number = compiled(COMPILER, tmp_path), str(LEVELS["neon"])
    done = subprocess.run([EMULATOR, "-cpu", "max", program, number], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("products") == 4
    older = subprocess.run([EMULATOR, "-cpu", "cortex-a53", program, number], check=False)  # without dot products
    assert older.returncode == 2
