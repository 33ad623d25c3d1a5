#!/usr/bin/env python3
"""Greedy agreement with llama.cpp's server: 20 prompts of the same token ids, 64 tokens each, on the same GGUF file.

Prints the share of prompts that agree at each position (up to there and at it), and for the first difference of each prompt how far
apart the two candidates are in both engines. Beyond it the two write different texts, and nothing is compared. How far the engines'
log-probabilities of one and the same token are apart where they agree says how large a gap their rounding explains. Exit code 1 when
a difference is no near-tie: when either engine prefers its own token by more than --near."""
import argparse
import statistics
import sys

import servers

PROMPTS = (
    "The capital of France is", "Once upon a time there was a small dragon who", "def fibonacci(n):\n", "Water boils at a temperature of",
    "The three primary colours are", "In 1969 the first human", "To make a cup of tea, first", "The largest planet of the solar system",
    "My favourite book is about", "Photosynthesis is the process by which", "SELECT name, age FROM users WHERE", "Dear Sir or Madam,\n\n",
    "The recipe needs two eggs, some flour and", "A prime number is a number that", "She opened the door and saw", "1, 2, 3, 4, 5,",
    "The difference between a list and a tuple in Python is", "Rain fell all night, and in the morning", "The heart pumps blood through",
    "Q: Why is the sky blue?\nA:",
)
CANDIDATES = 10


def atlas_answer(atlas, ids, tokens):
    """Ids, for each position the candidates' log-probabilities by the text that the API shows, and that of the chosen one."""
    choice = atlas.post("/v1/completions", {"prompt": ids, "max_tokens": tokens, "ignore_eos": True, "temperature": 0, "logprobs": CANDIDATES,
                                            "return_token_ids": True})["choices"][0]
    return choice["token_ids"], choice["logprobs"]["top_logprobs"], choice["logprobs"]["token_logprobs"]


def peer_answer(peer, ids, tokens):
    """Ids, for each position the candidates' log-probabilities by id, and that of the chosen one."""
    answer = peer.post("/completion", {"prompt": ids, "n_predict": tokens, "ignore_eos": True, "temperature": 0, "cache_prompt": False,
                                       "n_probs": CANDIDATES, "return_tokens": True})
    places = answer["completion_probabilities"]
    tops = [{top["id"]: top["logprob"] for top in place["top_logprobs"]} for place in places]
    return [place["id"] for place in places], tops, [place["logprob"] for place in places]


def gap(candidates, chosen, other):
    """How much likelier the chosen one is; None when the other is not even among the candidates."""
    return candidates[chosen] - candidates[other] if chosen in candidates and other in candidates else None


def shown(value):
    return "–" if value is None else f"{value:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    servers.add_arguments(parser)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--near", type=float, default=0.1, help="a gap of log-probabilities up to this is a near-tie")
    options = parser.parse_args()
    differences, agreed_until, apart = [], [], []
    with servers.both(options) as (atlas, peer):
        def text_of(token):
            return atlas.post("/detokenize", {"tokens": [token]}).get("prompt", "")

        for number, prompt in enumerate(PROMPTS, 1):
            ids = peer.post("/tokenize", {"content": prompt, "add_special": False})["tokens"]
            ours, our_tops, our_chosen = atlas_answer(atlas, ids, options.tokens)
            theirs, their_tops, their_chosen = peer_answer(peer, ids, options.tokens)
            place = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            agreed_until.append(place)
            apart += [abs(a - b) for a, b in zip(our_chosen[:place], their_chosen[:place])]
            if place < min(len(ours), len(theirs)):
                a, b = text_of(ours[place]), text_of(theirs[place])
                differences.append((number, place, a, b, gap(our_tops[place], a, b), gap(their_tops[place], theirs[place], ours[place])))
    print(f"{len(PROMPTS)} prompts, {options.tokens} tokens each, greedy\n\n| position | prompts that agree up to and at it |\n|---|---|")
    for position in sorted({1, 2, 4, 8, 16, 24, 32, 48, options.tokens}):
        if position <= options.tokens:
            print(f"| {position} | {sum(place >= position for place in agreed_until)} of {len(PROMPTS)} |")
    compared = sum(min(place + 1, options.tokens) for place in agreed_until)
    print(f"\n{sum(agreed_until)} of {compared} compared positions agree ({100 * sum(agreed_until) / max(1, compared):.1f} %).")
    if apart:
        print(f"Where they do, their log-probabilities of the token are {statistics.median(apart):.4f} apart in the median, "
              f"{sorted(apart)[int(0.99 * (len(apart) - 1))]:.4f} at the 99th percentile, {max(apart):.4f} at most.")
    print()
    print("| prompt | first difference at | atlas | llama.cpp | gap in atlas | gap in llama.cpp | near-tie |\n|---|---|---|---|---|---|---|")
    far = 0
    for number, place, a, b, our_gap, their_gap in differences:
        near = our_gap is not None and their_gap is not None and max(our_gap, their_gap) <= options.near
        far += not near
        print(f"| {number} | {place + 1} | `{a!r}` | `{b!r}` | {shown(our_gap)} | {shown(their_gap)} | {'yes' if near else 'no'} |")
    print(f"\n{len(differences)} prompts differ somewhere, {len(differences) - far} of them first at a near-tie (gap up to {options.near} in both).")
    return 1 if far else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except servers.Failed as error:
        sys.exit(str(error))
