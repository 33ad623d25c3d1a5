#!/usr/bin/env bash
# Packs what a bare Ubuntu 24.04 machine with a CUDA driver and libcublasLt needs to run the device tests and the server:
#   tests/device/pack.sh BUILD OUT
# writes OUT/atlas-device.tar.xz (binaries, lib/atlas_cuda.so, the shared libraries that such a machine lacks) and OUT/run.sh.
set -euo pipefail
build="$1"
out="$2"
limit=$((18 * 1000 * 1000))
here="$(cd "$(dirname "$0")" && pwd)"

# What the machine has by itself (C and C++ libraries, zlib) or must have for CUDA at all.
of_the_machine='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libz|libcuda|libcublasLt)\.so'

stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
tree="$stage/atlas-device"
mkdir -p "$tree/lib" "$out"

cp "$build/lib/atlas_cuda.so" "$tree/lib/"
for name in atlas device_tests kernel_bench step_bench; do
  [ -x "$build/$name" ] && cp "$build/$name" "$tree/"
done

# "libx.so.1 => /path/libx.so.1 (0x…)" of everything that is loaded, what libraries need of one another included.
ldd "$tree"/lib/atlas_cuda.so $(find "$tree" -maxdepth 1 -type f) | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r soname file; do
    [[ "$soname" =~ $of_the_machine ]] || cp -L "$file" "$tree/lib/$soname"
  done

chmod u+w "$tree"/* "$tree"/lib/*
strip --strip-unneeded "$tree"/lib/*.so*
find "$tree" -maxdepth 1 -type f -exec strip {} +
for library in "$tree"/lib/*.so*; do patchelf --set-rpath '$ORIGIN' "$library"; done
find "$tree" -maxdepth 1 -type f -exec patchelf --set-rpath '$ORIGIN/lib' {} \;

# Nothing but the machine's own libraries may come from outside.
for file in "$tree"/lib/*.so* $(find "$tree" -maxdepth 1 -type f); do
  LD_LIBRARY_PATH='' ldd "$file" | awk -v tree="$tree/" '$2 == "=>" && index($3, tree) != 1 {print $1}' | while read -r soname; do
    [[ "$soname" =~ $of_the_machine ]] || { echo "pack: $(basename "$file") takes $soname from outside the bundle" >&2; exit 1; }
  done
done

XZ_OPT='-9e -T0' tar -C "$stage" --sort=name --owner=0 --group=0 --mtime=@0 -cJf "$out/atlas-device.tar.xz" atlas-device
cp "$here/run.sh" "$out/run.sh"
bytes="$(stat -c %s "$out/atlas-device.tar.xz")"
if [ "$bytes" -gt "$limit" ]; then
  echo "pack: the bundle is $bytes bytes; it has to travel and may have $limit" >&2
  exit 1
fi
echo "$out/atlas-device.tar.xz: $bytes bytes"
