"""Which device serves, and what is said where it is not a GPU (contract: --backend)."""
import json
import shutil
import subprocess

import pytest

from conftest import BACKEND_MODULES, BINARY, MINI, ROOT

QUANTISED = ROOT / "tests/fixtures/gguf/tiny-llama-q8_0.gguf"
TEXT = "no shared object\n" * 100
BROKEN = {"text": "lib/atlas_cuda.so: invalid ELF header", "without_symbol": "lib/atlas_cuda.so: no symbol atlas_backend",
          "of_another_version": "lib/atlas_cuda.so: of another version of atlas", "without_device": "no CUDA-capable device is detected"}


@pytest.fixture
def alone(tmp_path):
    """alone(module) → a binary in a folder of its own, with that module (None: none) as its lib/atlas_cuda.so."""

    def _alone(module=None):
        binary = tmp_path / "atlas"
        shutil.copy(BINARY, binary)
        if module:
            (tmp_path / "lib").mkdir()
            file = tmp_path / "lib" / "atlas_cuda.so"
            file.write_text(TEXT) if module == "text" else shutil.copy(BACKEND_MODULES / f"{module}.so", file)
        return binary

    return _alone


def run(binary, *arguments):
    return subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=60)


def test_without_a_module_the_cpu_serves_and_says_why(start, alone):
    atlas = start("--threads=2", binary=alone())
    assert "backend cpu (2 workers): lib/atlas_cuda.so: not there" in atlas.output
    status, answer = atlas.post("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 3, "temperature": 0})
    assert status == 200 and answer["usage"]["completion_tokens"] == 3
    version = json.loads(atlas.get("/version")[1])
    assert version["backend"] == "cpu" and version["device"] and "compute_capability" not in version
    assert atlas.metric('atlas_backend_info{backend="cpu"}') == 1 and atlas.metric("atlas_gemm_fallback_total") == 0


@pytest.mark.parametrize("module", BROKEN)
def test_a_broken_module_gives_its_reason_and_the_cpu_is_taken(alone, module):
    planned = run(alone(module), "plan", str(MINI))
    assert planned.returncode == 0 and json.loads(planned.stdout)["vocab_size"] == 4096
    assert "backend cpu (" in planned.stderr and BROKEN[module] in planned.stderr


@pytest.mark.parametrize("module", [None, *BROKEN])
def test_cuda_that_cannot_be_had_is_a_startup_error(alone, module):
    served = run(alone(module), "serve", str(MINI), "--port=0", "--backend=cuda")
    assert served.returncode == 1 and "listening" not in served.stdout
    assert f"--backend cuda: {BROKEN.get(module, 'lib/atlas_cuda.so: not there')}" in served.stderr


def test_cpu_looks_for_no_module(alone):
    planned = run(alone("text"), "plan", str(MINI), "--backend=cpu")
    assert planned.returncode == 0 and "atlas_cuda" not in planned.stderr + planned.stdout


def test_quantised_weights_run_on_the_cpu(alone):
    planned = run(alone("without_device"), "plan", str(QUANTISED))
    assert planned.returncode == 0 and "quantised weights (q8_0) run on the CPU" in planned.stderr
    refused = run(alone(), "plan", str(QUANTISED), "--backend=cuda")
    assert refused.returncode == 1 and "quantised weights" in refused.stderr


@pytest.mark.parametrize("flag", ["--dtype", "--kv-cache-dtype"])
def test_the_cpu_computes_in_float32_only(flag):
    planned = run(BINARY, "plan", str(MINI), "--backend=cpu", f"{flag}=bfloat16")
    assert planned.returncode == 1 and flag in planned.stderr and "float32" in planned.stderr
    assert run(BINARY, "plan", str(MINI), "--backend=cpu", f"{flag}=float32").returncode == 0


def test_inspect_needs_no_device(alone):
    assert run(alone("text"), "inspect", str(MINI), "--backend=cuda").returncode == 0
