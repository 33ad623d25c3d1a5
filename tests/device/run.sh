#!/usr/bin/env bash
# The device's evidence on a CUDA machine without a toolkit of ours: unpacks atlas-device.tar.xz, which lies beside this file, and
# runs the parts that are named, each with its own log, then one summary.
#   run.sh [--tree TREE] [--out FOLDER] [--filter GTEST_FILTER] PART…
# Parts: tests     every device test
#        memcheck, racecheck, initcheck    the tests of --filter under compute-sanitizer
#        bf16      what bfloat16 costs Atlas beside what it costs transformers on this GPU; needs torch and transformers
#        server    long prompts, chunked against whole, batch 1 against 32, a sticky fault under load, through the running server
#        server-memcheck    the longest prompt through the server under compute-sanitizer
#        kernels, steps     tables of the benchmarks, where they were packed
# TREE is a checkout, for its fixtures and scripts; default: the one that this file lies in (build/device), or lay in.
set -uo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
tree="$here/../.."
out="$here/out"
filter='*'
parts=()
while [ $# -gt 0 ]; do
  case "$1" in
    --tree) tree="$2"; shift 2 ;;
    --out) out="$2"; shift 2 ;;
    --filter) filter="$2"; shift 2 ;;
    -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    *) parts+=("$1"); shift ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(tests server)
tree="$(cd "$tree" && pwd)" || exit 2
[ -d "$tree/tests/fixtures" ] || { echo "run.sh: $tree holds no tests/fixtures; name a checkout with --tree" >&2; exit 2; }
mkdir -p "$out"

bundle="$here/atlas-device"
if [ ! -d "$bundle" ] || [ "$here/atlas-device.tar.xz" -nt "$bundle/unpacked" ]; then
  rm -rf "$bundle"
  tar -C "$here" -xJf "$here/atlas-device.tar.xz" || exit 2
  touch "$bundle/unpacked"
fi
export ATLAS_FIXTURES="$tree/tests/fixtures" ATLAS_MODELS="$tree/conf/models"

# The folder of libcublasLt.so.13: the linker's own, a toolkit's, or a Python package's.
cublas_folder() {
  ldconfig -p 2>/dev/null | awk '/libcublasLt\.so\.13/ {print $NF; exit}'
  ls /usr/local/cuda*/lib64/libcublasLt.so.13 /usr/local/cuda*/targets/*/lib/libcublasLt.so.13 2>/dev/null
  python3 -c 'import importlib.util as u; [print(p) for p in (u.find_spec("nvidia") or u.spec_from_loader("x", None, is_package=True)).submodule_search_locations]' 2>/dev/null |
    while read -r folder; do find "$folder" -name 'libcublasLt.so.13'; done
}
library="$(cublas_folder | head -1)"
if [ -n "$library" ]; then
  export LD_LIBRARY_PATH="$(dirname "$library")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  echo "libcublasLt: $library"
else
  echo "libcublasLt.so.13 was not found: tests that need a device will be skipped"
fi
sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)"

command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

# Under a sanitizer: sizes are small; tests that fault on purpose (CudaFaults) are left out, and refused calls, which tests provoke and check
# themselves, are no errors. Products are our own but for memcheck: what a library's kernels write by bulk copies is unset memory to initcheck,
# and their barriers are races to racecheck. So the test that asks for the library's is left out there.
sanitize() {
  [ -n "$sanitizer" ] || { echo "compute-sanitizer was not found"; return 1; }
  local options=(--tool "$1" --error-exitcode 9 --print-limit 20) left_out='CudaFaults.*:*DeathTest.*'
  local wanted="$filter"
  [ "$filter" != '*' ] || wanted='Cuda*:Invariance.*:DeviceStepErrors.*'
  export ATLAS_DEVICE_SMALL=1
  if [ "$1" = memcheck ]; then
    options+=(--report-api-errors no)
  else
    export ATLAS_DEVICE_OWN_PRODUCTS=1
    left_out+=':Invariance.LibraryProducts*'
  fi
  "$sanitizer" "${options[@]}" "$bundle/device_tests" --gtest_filter="$wanted:-$left_out"
}
evidence() { PYTHONUNBUFFERED=1 python3 "$tree/tests/e2e/device/long_context.py" --binary "$bundle/atlas" --backend "${ATLAS_BACKEND:-cuda}" "$@"; }
bench() { [ -x "$bundle/$1" ] || { echo "$1 was not packed"; return 1; }; "$bundle/$@"; }

run_part() {
  case "$1" in
    tests) "$bundle/device_tests" --gtest_filter="$filter" ;;
    memcheck|racecheck|initcheck) (sanitize "$1") ;;  # what it exports stays there
    server) evidence --scale "${ATLAS_SCALE:-full}" --json "$out/server.json" ;;
    server-memcheck)
      [ -n "$sanitizer" ] || { echo "compute-sanitizer was not found"; return 1; }
      evidence --scale "${ATLAS_SCALE:-full}" --only longest --wrap "$sanitizer --tool memcheck --error-exitcode 9" --json "$out/server-memcheck.json" ;;
    bf16)
      python3 "$tree/tests/model/cuda/transformers_bf16.py" "$out/transformers_bf16.json" "$ATLAS_FIXTURES" &&
        ATLAS_BF16_REFERENCE="$out/transformers_bf16.json" "$bundle/device_tests" --gtest_filter='DeviceBf16.*' ;;
    kernels) bench kernel_bench ;;
    steps) bench step_bench ;;
    *) echo "no part $1"; return 2 ;;
  esac
}

# Of device tests: how many passed, and why the rest was left out. "ok" is not what a run without a single test is.
told_by_gtest() {
  awk '/^\[  (PASSED|SKIPPED|FAILED)  ?\] [0-9]+ test/ {printf "%s%s %s", n++ ? ", " : "", $4, tolower($2)}' "$1" 2>/dev/null
  grep -aA1 ': Skipped$' "$1" 2>/dev/null | sed -n '2s/^/; first: /p' | tr -d '\n'
}

summary=()
failed=0
for part in "${parts[@]}"; do
  echo "== $part"
  start="$(date +%s.%N)"
  run_part "$part" >"$out/$part.log" 2>&1
  code=$?
  seconds="$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN {printf "%.1f", b - a}')"
  # Of thousands of lines what was decided: failures, gtest's totals, the sanitizer's, and the end.
  grep -aE '^\[  FAILED  \]|^\[  PASSED  \]|^\[  SKIPPED \] [0-9]+ tests|ERROR SUMMARY|Failure$' "$out/$part.log" | sort -u | head -60
  tail -n 40 "$out/$part.log" | grep -avE '^\[ +(OK|RUN|SKIPPED) +\]'
  verdict=ok
  if [ $code -ne 0 ]; then
    verdict="FAILED $code"
    failed=1
  elif grep -qE '^\[  PASSED  \] 0 tests' "$out/$part.log"; then
    verdict=skipped
  fi
  summary+=("$(printf '%-16s %-10s %8s s   %s  %s' "$part" "$verdict" "$seconds" "$out/$part.log" "$(told_by_gtest "$out/$part.log")")")
done
echo "== summary"
printf '%s\n' "${summary[@]}"
exit $failed
