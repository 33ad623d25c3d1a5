"""The whole server on the CUDA backend, compiled as plain C++: what a GPU would be asked, without one."""
import json
import math
import shutil
import subprocess
import sys

import pytest

from conftest import BINARY, EMULATED_MODULE, ROOT, TINY

pytestmark = pytest.mark.skipif(not EMULATED_MODULE.exists(), reason="the emulated module is not built here")
SMALL = ("--max-prefill-tokens=64", "--max-batch-size=2", "--max-seq-len=512")
ASK = {"max_tokens": 4, "temperature": 0, "ignore_eos": True, "return_token_ids": True, "logprobs": 1}


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("emulated")
    shutil.copy(BINARY, folder / "atlas")
    (folder / "lib").mkdir()
    shutil.copy(EMULATED_MODULE, folder / "lib" / "atlas_cuda.so")
    return folder / "atlas"


def plan(binary, *flags):
    run = subprocess.run([binary, "plan", str(TINY), *flags], capture_output=True, text=True, timeout=60)
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr


def test_auto_takes_the_device_and_its_defaults(binary):
    taken = plan(binary)
    assert (taken["activation"], taken["max_batch_size"], taken["max_prefill_tokens"]) == ("bf16", 64, 8192)
    assert plan(binary, "--backend=cpu")["activation"] == "f32"
    assert plan(binary, "--dtype=float32")["activation"] == "f32"
    assert "--kv-cache-dtype" in plan(binary, "--dtype=float32", "--kv-cache-dtype=bfloat16")


def test_float32_serves_the_tokens_of_the_cpu(start, binary):
    cuda = start("--backend=cuda", "--dtype=float32", *SMALL, model=TINY, binary=binary)
    cpu = start("--backend=cpu", *SMALL, model=TINY)
    assert "backend cuda-emulator: " in cuda.output
    version = json.loads(cuda.get("/version")[1])
    assert version["backend"] == "cuda-emulator" and version["compute_capability"] == "9.0" and version["libraries"]
    assert cuda.metric('atlas_backend_info{backend="cuda-emulator"}') == 1
    for length in (1, 17, 70):  # one chunk, more than a page, two chunks and past the selection's bound
        body = {**ASK, "prompt": [(7 * i + length) % 250 for i in range(length)]}
        (status, one), (_, other) = cuda.post("/v1/completions", body), cpu.post("/v1/completions", body)
        assert status == 200, one
        one, other = one["choices"][0], other["choices"][0]
        assert one["token_ids"] == other["token_ids"]
        for a, b in zip(one["logprobs"]["token_logprobs"], other["logprobs"]["token_logprobs"]):
            assert math.isclose(a, b, abs_tol=1e-4)


def test_faults_of_the_device_end_what_they_must(binary):
    run = subprocess.run([sys.executable, ROOT / "tests/e2e/device/long_context.py", "--binary", binary, "--backend=cuda", "--scale=small",
                          "--only=step", "--only=sticky"], capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stdout + run.stderr
    for part in ("cudaErrorInvalid", "cudaErrorIllegalAddress", "cudaErrorMisalignedAddress", "exit 70"):
        assert part in run.stdout, run.stdout
