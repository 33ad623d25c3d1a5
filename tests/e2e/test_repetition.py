"""A request's own repetition_detection ends what repeats itself, and says so; nothing else is touched (contract: HTTP)."""
import pytest

LOOP = {"messages": [{"role": "user", "content": "Say 'blue owl' forever."}], "temperature": 0, "max_tokens": 120,
        "chat_template_kwargs": {"enable_thinking": False}}
ASKED = {"repetition_detection": {"max_pattern_size": 8, "min_count": 5}}


def ended(mini, body):
    answer = mini.post("/v1/chat/completions", body)[1]
    return answer["choices"][0], answer["usage"]["completion_tokens"]


def test_without_it_the_models_own_output_is_untouched(mini):
    choice, tokens = ended(mini, LOOP)
    assert tokens == 120 and choice["finish_reason"] == "length" and "stop_details" not in choice


def test_a_loop_ends_with_length_and_names_the_guard(mini):
    whole, _ = ended(mini, LOOP)
    hits, declined = (mini.metric(name) for name in ('atlas_watchdog_hits_total{guard="repetition"}', 'atlas_rollbacks_total{outcome="disabled"}'))
    choice, tokens = ended(mini, {**LOOP, **ASKED})
    # one token, then five times a period of two
    assert choice["finish_reason"] == "length" and choice["stop_details"] == "repetition" and tokens == 11
    said = choice["message"]["content"]
    assert said.count("blue owl") >= 5 and whole["message"]["content"].startswith(said)
    assert mini.metric('atlas_watchdog_hits_total{guard="repetition"}') - hits == 1
    assert mini.metric('atlas_rollbacks_total{outcome="disabled"}') - declined == 1


def test_a_stream_says_the_same(mini):
    choice, _ = ended(mini, {**LOOP, **ASKED})
    *chunks, done = mini.events("/v1/chat/completions", {**LOOP, **ASKED, "stream": True})
    assert done == "[DONE]"
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == choice["message"]["content"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length" and chunks[-1]["choices"][0]["stop_details"] == "repetition"


@pytest.mark.parametrize("asked", [{"max_pattern_size": 1, "min_count": 5}, {"max_pattern_size": 8, "min_count": 100}, {"max_pattern_size": 0}])
def test_what_does_not_repeat_as_asked_goes_on(mini, asked):
    choice, tokens = ended(mini, {**LOOP, "repetition_detection": asked})
    assert tokens == 120 and "stop_details" not in choice
