"""A GGUF file served: its name, its tokenizer and template, its stop token; inspect and plan read it too."""
import json
import subprocess

import pytest

from conftest import BINARY, ROOT, Atlas

FILE = ROOT / "tests/fixtures/gguf/tiny-llama-q8_0.gguf"


@pytest.fixture(scope="module")
def served():
    atlas = Atlas(model=FILE)
    yield atlas
    atlas.close()


def test_the_file_answers_a_chat_under_its_own_name(served):
    assert json.loads(served.get("/v1/models")[1])["data"][0]["id"] == "tiny-llama-q8_0"
    status, answer = served.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "temperature": 0,
                                                          "model": "tiny-llama-q8_0"})
    assert status == 200
    assert answer["choices"][0]["finish_reason"] in ("stop", "length")
    assert answer["usage"]["prompt_tokens"] == 22  # <|turn|>, "user: ", he ll o, a new line, <|turn|>, "assistant:"


def test_text_is_encoded_by_the_files_vocabulary(served):
    assert served.post("/tokenize", {"prompt": "hello"})[1]["tokens"] == [248, 249, ord("o")]


def test_inspect_names_types_tokenizer_and_template():
    out = subprocess.run([str(BINARY), "inspect", str(FILE)], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    for part in ("model_type   llama", "q8_0", "tokenizer    252 tokens, 2 merges", "token_embd.weight", "[256, 64]", "template"):
        assert part in out.stdout


def test_tokenize_reads_the_file():
    out = subprocess.run([str(BINARY), "tokenize", str(FILE), "--json"], input='{"prompt":"hello"}\n', capture_output=True, text=True,
                         timeout=60)
    assert json.loads(out.stdout)["tokens"] == [248, 249, ord("o")]


def test_a_file_cut_off_is_refused_before_the_port_is_bound(tmp_path):
    short = tmp_path / "short.gguf"
    short.write_bytes(FILE.read_bytes()[:-40])
    out = subprocess.run([str(BINARY), "serve", str(short), "--port=0"], capture_output=True, text=True, timeout=60)
    assert out.returncode == 1
    assert "short.gguf: tensor" in out.stderr and "ends behind" in out.stderr
