"""Streams exactly as the contract says: framing, headers, one finish_reason a choice, usage, [DONE]; echoed request ids."""
import json

import pytest

CHAT = {"messages": [{"role": "user", "content": "Say the alphabet."}], "temperature": 0, "max_tokens": 40,
        "chat_template_kwargs": {"enable_thinking": False}}


def test_headers_of_a_stream(mini):
    status, headers, _ = mini.request("POST", "/v1/chat/completions", {**CHAT, "stream": True}, {"x-request-id": "abc-1"})
    assert status == 200
    assert headers["Cache-Control"] == "no-cache" and headers["X-Accel-Buffering"] == "no"
    assert headers["x-request-id"] == "abc-1"


@pytest.mark.parametrize("n", [1, 3])
def test_each_choice_gets_one_role_and_one_finish_reason(mini, n):
    *chunks, done = mini.events("/v1/chat/completions", {**CHAT, "n": n})
    assert done == "[DONE]"
    for index in range(n):
        own = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
        assert own[0]["delta"]["role"] == "assistant"
        assert all("role" not in choice["delta"] for choice in own[1:])
        assert [choice["finish_reason"] for choice in own if choice["finish_reason"]] == ["stop"]
        assert own[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("asked", [True, False])
def test_usage_comes_once_and_only_when_asked(mini, asked):
    *chunks, done = mini.events("/v1/chat/completions", {**CHAT, "stream_options": {"include_usage": asked}})
    with_usage = [c for c in chunks if c.get("usage")]
    assert len(with_usage) == (1 if asked else 0)
    if asked:
        assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 27


def test_stream_and_whole_answer_are_the_same(mini, expected):
    for case in [c for c in expected["cases"] if c["name"] in ("json", "story", "translate0", "arith_think")][:3]:
        body = {"prompt": case["prompt_ids"], "temperature": 0, "max_tokens": len(case["tokens"]), "return_token_ids": True}
        whole = mini.post("/v1/completions", body)[1]["choices"][0]
        *chunks, _ = mini.events("/v1/completions", body)
        assert "".join(c["choices"][0]["text"] for c in chunks) == whole["text"]


def test_stop_string_over_token_borders_never_leaks(mini):
    stop = "f g h"
    *chunks, _ = mini.events("/v1/chat/completions", {**CHAT, "stop": [stop]})
    pieces = [c["choices"][0]["delta"].get("content") or "" for c in chunks]
    assert "".join(pieces) == "a b c d e "
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"][0].get("stop_reason") == stop


def test_unicode_streams_are_whole_characters(mini):
    text = "Repeat after me: é漢😀ß"
    *chunks, _ = mini.events("/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": text}], "max_tokens": 24})
    for chunk in chunks:
        piece = chunk["choices"][0]["delta"].get("content") or ""
        assert "\ufffd" not in piece and json.loads(json.dumps(piece)) == piece
