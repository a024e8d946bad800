#!/bin/sh
# Compares the software NVMe controller over a file with fio's io_uring engine
# on the same file: 4 KiB random reads, 32 in flight, O_DIRECT, in turns. Prints
# both medians and their ratio, and fails when the ratio is below MINIMUM.
#
#   scripts/bench-file.sh [FILE]
#
# FILE is made when it is missing (SIZE, removed afterwards); give one on the
# drive to be measured. Needs fio (Debian: apt-get install fio) and Go, or the
# test binary of libnvm/soft, made elsewhere with "go test -c", in SOFT_TEST.
set -eu

ROUNDS=${ROUNDS:-5}
SECONDS_EACH=${SECONDS_EACH:-3}
SIZE=${SIZE:-1G}
MINIMUM=${MINIMUM:-0.9}
DEPTH=32

cd "$(dirname "$0")/.."
command -v fio >/dev/null || { echo "bench-file: fio is missing: apt-get install fio" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
file=${1:-$work/disk}

job() { # extra arguments; prints nothing, JSON goes to $work/fio.json
    fio --name=bench --filename="$file" --bs=4k --direct=1 --ioengine=io_uring \
        --iodepth=$DEPTH --output-format=json --output="$work/fio.json" "$@"
}

if [ ! -e "$file" ]; then
    job --rw=write --bs=1M --size="$SIZE" --end_fsync=1
fi

if [ -n "${SOFT_TEST:-}" ]; then
    cp "$SOFT_TEST" "$work/soft.test"
else
    go test -c -o "$work/soft.test" ./libnvm/soft
fi

fio_iops() {
    job --rw=randread --runtime="$SECONDS_EACH" --time_based --norandommap --size=100%
    awk -F'[:,]' '/"read" *:/ {r = 1} r && /"iops" *:/ {printf "%d\n", $2; exit}' "$work/fio.json"
}

soft_iops() {
    TRITIER_BENCH_FILE="$file" "$work/soft.test" -test.run '^$' -test.bench 'FileRandRead$' \
        -test.benchtime "${SECONDS_EACH}s" | tee "$work/soft.out" |
        awk '{for (i = 2; i <= NF; i++) if ($i == "IOPS") printf "%d\n", $(i-1)}'
}

median() { sort -n "$1" | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }

i=0
while [ $i -lt "$ROUNDS" ]; do
    fio_iops >>"$work/fio"
    soft_iops >>"$work/soft"
    i=$((i + 1))
done

grep -m 1 -o 'file .*' "$work/soft.out" | sed 's/^/backend:      /'
echo "rounds:       $ROUNDS of $SECONDS_EACH s, 4 KiB random read, depth $DEPTH"
echo "fio io_uring: $(median "$work/fio") IOPS ($(tr '\n' ' ' <"$work/fio"))"
echo "soft:         $(median "$work/soft") IOPS ($(tr '\n' ' ' <"$work/soft"))"
awk -v f="$(median "$work/fio")" -v s="$(median "$work/soft")" -v m="$MINIMUM" \
    'BEGIN {printf "ratio:        %.2f (at least %.2f wanted)\n", s / f, m; exit s / f < m}'
