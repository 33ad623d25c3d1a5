#!/usr/bin/env python3
"""What bfloat16 costs transformers itself on the tiny fixtures: the yardstick of bf16_error_test.cpp.

    python3 tests/model/cuda/transformers_bf16.py OUT.json [FIXTURES [FAMILY ...]]

Needs torch and transformers (5.17 knows every family); runs on the GPU where torch sees one, else on the CPU. For each
prompt of each family's expected.safetensors the checkpoint is run in bfloat16, and the error of its logits against the
expected (float32) ones is written: |theirs - expected| / |expected|, Euclidean, over the rows that the fixture has, and
under "all" over the rows of all prompts.
`ATLAS_BF16_REFERENCE=OUT.json device_tests --gtest_filter='DeviceBf16*'` then holds Atlas to twice as much.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file
from torch.overrides import TorchFunctionMode

FAMILIES = ["llama", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen4_exp"]


class LowerBlockFirst(TorchFunctionMode):
    """torch leaves open which of equal scores topk takes, and scores behind a ReLU are often 0: qwen4_exp's selection
    (Tensor.topk, along the first dimension) takes the lower block, as the fixtures and Atlas do."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is not torch.Tensor.topk:
            return func(*args, **kwargs)
        (scores, k), dim = args, kwargs["dim"]
        values, indices = torch.sort(scores, dim=dim, descending=True, stable=True)
        return torch.return_types.topk((values.narrow(dim, 0, k), indices.narrow(dim, 0, k)))


@torch.no_grad()
def errors_of(folder, device, dtype):
    # eager: the fixtures' own attention, so that nothing but the type differs from the run that made them.
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager").eval().to(device)
    expected = load_file(folder / "expected.safetensors")
    errors, differences, lengths = {}, [], []
    for key, ids in sorted(expected.items()):
        if not key.endswith(".input_ids"):
            continue
        prompt = key.removesuffix(".input_ids")
        want = expected[prompt + ".logits"]
        ids = ids.long().unsqueeze(0).to(device)
        with LowerBlockFirst():
            logits = model(input_ids=ids, use_cache=False).logits[0, -len(want):]
        differences.append((logits.double().cpu() - want.double()).norm())
        lengths.append(want.double().norm())
        errors[prompt] = float(differences[-1] / lengths[-1])
    errors["all"] = float(torch.stack(differences).norm() / torch.stack(lengths).norm())
    return errors


def main():
    out = pathlib.Path(sys.argv[1])
    fixtures = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "tests/fixtures")
    families = sys.argv[3:] or FAMILIES
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    report = {"torch": torch.__version__, "transformers": transformers.__version__,
              "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu", "errors": {}}
    for family in families:
        folder = fixtures / f"tiny-{family}"
        # The same in float32 first: were the model run wrongly, its bfloat16 error would be no yardstick.
        exact = max(errors_of(folder, device, torch.float32).values())
        if exact > 1e-4:
            sys.exit(f"{folder.name}: transformers in float32 is {exact:.1e} from the fixture")
        report["errors"][folder.name] = errors_of(folder, device, torch.bfloat16)
        print(folder.name, f"float32 {exact:.1e}", {k: f"{v:.2e}" for k, v in report["errors"][folder.name].items()},
              flush=True)
    out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
