"""The evidence script of the GPU machine runs and finds what it looks for: here on the CPU, with short prompts."""
import importlib.util
import json
import subprocess
import sys

import pytest

from conftest import BINARY, ROOT

SCRIPT = ROOT / "tests/e2e/device/long_context.py"
CHECKS = ["lengths 191", "lengths 256", "chunked", "batch", "step", "sticky", "sticky misaligned", "capacity", "longest"]


def test_every_check_passes_on_the_cpu(tmp_path):
    table = tmp_path / "table.json"
    run = subprocess.run([sys.executable, SCRIPT, "--binary", BINARY, "--backend=cpu", "--scale=small", f"--json={table}"],
                         capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stdout + run.stderr
    written = json.loads(table.read_text())
    assert [row["check"] for row in written["rows"]] == CHECKS and "backend cpu" in written["backend"]
    assert all(f"| {check} | ok |" in run.stdout for check in CHECKS)


@pytest.fixture
def evidence(monkeypatch):
    """The script as a module, with a server that answers what the test says."""
    spec = importlib.util.spec_from_file_location("long_context", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def with_answers(answer):
        class Fake:
            def __init__(self, options, model, *flags, **more):
                self.flags = flags

            complete = lambda self, prompt, tokens, **more: answer(self.flags, prompt)
            backend = lambda self: "fake"
            kill = lambda self: None

        monkeypatch.setattr(module, "Server", Fake)
        options = type("Options", (), {"scale": "small", "wrap": ""})
        return module.Evidence(options, ROOT / "tests/fixtures/tiny-qwen4_exp")

    with_answers.Failed = module.Failed
    return with_answers


def test_a_width_that_changes_one_digit_is_found(evidence):
    same = evidence(lambda flags, prompt: "-0.25")
    assert "equal" in same.chunked()
    other = evidence(lambda flags, prompt: "-0.25" if len(prompt) != 419 or "--max-prefill-tokens=64" not in flags else "-0.26")
    with pytest.raises(evidence.Failed, match="1 of .* differ at width 64, first of 419"):
        other.chunked()


def test_a_batch_that_changes_one_answer_is_found(evidence):
    seen = {}

    def answer(flags, prompt):
        key = tuple(prompt)
        seen[key] = seen.get(key, 0) + 1
        return "b" if seen[key] > 1 and len(seen) == 8 and key == list(seen)[3] else "a"

    with pytest.raises(evidence.Failed, match="1 of 8 differ; prompt 3"):
        evidence(answer).batch()
