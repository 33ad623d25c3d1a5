"""The fault drill through the whole server: who dies of what (architecture: Errors and faults)."""
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import BINARY, MINI

SHORT = {"prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
LONG = {**SHORT, "max_tokens": 4000}


def drill(start, orders, *flags):
    return start("--backend=cpu", *flags, env={"ATLAS_TEST_FAULT": orders})


def test_a_drill_is_warned_of(start):
    assert "warning: fault injection is on: ATLAS_TEST_FAULT=step_error@step=99" in drill(start, "step_error@step=99").output


@pytest.mark.parametrize("orders,part", [("stikcy", "did you mean sticky?"), ("snapshot_fail@step=3", "does not inject it"), ("row_read_error", "no n-gram table is read from files ("), ("sticky@ms=3", "ms does not apply to sticky"), ("sticky@step=0", "step has to be")])
def test_a_drill_that_cannot_be_done_is_a_startup_error(orders, part):
    run = subprocess.run([BINARY, "serve", str(MINI), "--port=0"], capture_output=True, text=True, timeout=60, env={"ATLAS_TEST_FAULT": orders})
    assert run.returncode == 1 and part in run.stderr and orders in run.stderr and "listening" not in run.stdout


def test_a_step_error_ends_its_request_with_500_and_the_next_works(start):
    atlas = drill(start, "step_error@step=next")
    status, answer = atlas.post("/v1/completions", SHORT)
    assert status == 500 and answer["error"]["code"] == "engine_error" and "injected fault" in answer["error"]["message"]
    status, answer = atlas.post("/v1/completions", SHORT)
    assert status == 200 and answer["choices"][0]["finish_reason"] == "length"
    assert atlas.metric('atlas_faults_total{kind="step_error"}') == 1
    assert atlas.get("/health")[0] == 200


def test_a_step_error_ends_a_stream_as_error_and_the_next_works(start):
    atlas = drill(start, "step_error@step=3")
    frames = atlas.events("/v1/completions", SHORT)
    assert frames[-1] == "[DONE]"
    ends = [choice["finish_reason"] for frame in frames[:-1] for choice in frame.get("choices", []) if choice["finish_reason"]]
    assert ends == ["error"] and any("error" in frame for frame in frames[:-1])
    assert [choice["finish_reason"] for choice in atlas.events("/v1/completions", SHORT)[-2]["choices"]] == ["length"]


@pytest.mark.parametrize("kind", ["sticky", "misaligned"])
def test_a_sticky_fault_under_load_ends_every_stream_and_the_process(start, kind):
    atlas = drill(start, f"{kind}@step=40", "--fatal-grace=2", "--max-batch-size=4")
    with ThreadPoolExecutor(8) as pool:
        streams = [pool.submit(atlas.events, "/v1/completions", LONG) for _ in range(4)]
        streams += [pool.submit(atlas.request, "POST", "/v1/completions", LONG) for _ in range(2)]
        failing = atlas.until(lambda: None if atlas.get("/health")[0] == 200 else json.loads(atlas.get("/health")[1]), 30)
        assert failing["status"] == "failing" and "injected fault" in failing["reason"]
        assert atlas.get("/livez")[0] == 503 and atlas.get("/readyz")[0] == 503
        status, answer = atlas.post("/v1/completions", SHORT)
        assert status == 503 and answer["error"]["code"] == "gpu_fault"
        for stream in streams[:4]:
            frames = stream.result(30)
            ends = [choice["finish_reason"] for frame in frames if frame != "[DONE]" for choice in frame.get("choices", []) if choice["finish_reason"]]
            assert ends == ["error"] and frames[-1] == "[DONE]", frames[-3:]
        for whole in streams[4:]:
            assert whole.result(30)[0] == 503
    assert atlas.popen.wait(30) == 70
    assert "injected fault" in atlas.output
