#!/usr/bin/env python3
"""What int8 activations cost, in both engines: log-probabilities of the likeliest next tokens after 20 prompts, from a quantised GGUF file
and from its float twin (the same weights, dequantised to F32 by the Python package gguf), in Atlas and in llama.cpp. The twins show
whether the engines compute the same model; each engine against its own twin shows its rounding. With --keep the twin stays, for
agreement.py --model."""
import argparse
import copy
import pathlib
import statistics
import sys
import tempfile

import servers
from agreement import PROMPTS

CANDIDATES = 8


def write_float_twin(source, target):
    import gguf
    import numpy

    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def peer_candidates(peer, ids):
    answer = peer.post("/completion", {"prompt": ids, "n_predict": 1, "temperature": 0, "cache_prompt": False, "n_probs": 40})
    return {top["id"]: top["logprob"] for top in answer["completion_probabilities"][0]["top_logprobs"]}


def atlas_given(atlas, ids):
    """The log-probability of the last of the ids, as part of a prompt."""
    answer = atlas.post("/v1/completions", {"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 0, "temperature": 0})
    return answer["choices"][0]["logprobs"]["token_logprobs"][-1]


def measure(options):
    """For each prompt llama.cpp's candidates, and a function that asks Atlas for one of them."""
    with servers.both(options) as (atlas, peer):
        for prompt in PROMPTS:
            ids = peer.post("/tokenize", {"content": prompt, "add_special": False})["tokens"]
            theirs = peer_candidates(peer, ids)
            yield theirs, lambda token, ids=ids: atlas_given(atlas, [*ids, token])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    servers.add_arguments(parser)
    parser.add_argument("--keep", help="where the float twin is written; default: a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        twin = copy.copy(options)
        twin.model = options.keep or str(pathlib.Path(folder) / "float.gguf")
        write_float_twin(options.model, twin.model)
        chosen, float_rows = [], []
        for theirs, ours in measure(twin):
            tokens = sorted(theirs, key=theirs.get, reverse=True)[:CANDIDATES]
            chosen.append(tokens)
            float_rows.append([(ours(token), theirs[token]) for token in tokens])
        rows = []  # atlas, llama.cpp, their twins
        for tokens, floats, (theirs, ours) in zip(chosen, float_rows, measure(options)):
            rows += [(ours(token), theirs[token], *of_twins) for token, of_twins in zip(tokens, floats) if token in theirs]
    print(f"{len(rows)} log-probabilities of likely tokens after {len(PROMPTS)} prompts\n")
    print("| distance between | mean | median | 95 % | largest |\n|---|---|---|---|---|")
    for name, a, b in (("the float twins of both engines", 2, 3), ("Atlas and its twin", 0, 2), ("llama.cpp and its twin", 1, 3),
                       ("Atlas and llama.cpp", 0, 1)):
        apart = sorted(abs(row[a] - row[b]) for row in rows)
        print(f"| {name} | {statistics.mean(apart):.4f} | {statistics.median(apart):.4f} | {apart[int(0.95 * (len(apart) - 1))]:.4f} | {apart[-1]:.4f} |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except servers.Failed as error:
        sys.exit(str(error))
