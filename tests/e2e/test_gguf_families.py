"""Every family from a GGUF file that the Python package gguf wrote: greedy tokens are the reference's, as from safetensors."""
import sys

import numpy
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests/fixtures/gguf"))
import make  # noqa: E402


@pytest.mark.parametrize("name", sorted(make.architectures))
def test_float_weights_give_the_tokens_of_the_reference(start, tmp_path, name):
    path = tmp_path / f"{name}.gguf"
    make.Model(name, make.architectures[name], make.Type.F32, path).write()
    expected = make.read_safetensors(ROOT / "tests/fixtures" / name, "expected.safetensors")
    atlas = start("--threads=1", "--max-seq-len=512", model=path)
    prompts = [key.removesuffix(".greedy") for key in expected if key.endswith(".greedy")]
    assert prompts
    for prompt in prompts:
        want = numpy.ravel(expected[prompt + ".greedy"]).tolist()
        ids = numpy.ravel(expected[prompt + ".input_ids"]).tolist()
        status, answer = atlas.post("/v1/completions", {"prompt": ids, "max_tokens": len(want), "temperature": 0, "ignore_eos": True,
                                                        "return_token_ids": True})
        assert status == 200, answer
        assert answer["choices"][0]["token_ids"] == want, prompt
