#!/bin/sh
# Compares the software NVMe controller over a file with fio's io_uring engine
# on the same file: 4 KiB random reads, 32 in flight, O_DIRECT, in turns. The
# controller is measured with its service thread beside the driver's, and with
# its service on the driver's thread (soft.Controller.Lend), as fio has it too.
# Prints the medians and their ratios to fio's, and fails when the better ratio
# is below MINIMUM.
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

soft_iops() { # number of threads
    TRITIER_BENCH_FILE="$file" "$work/soft.test" -test.run '^$' -test.bench "FileRandRead/threads=$1\$" \
        -test.benchtime "${SECONDS_EACH}s" | tee "$work/soft.out" |
        awk '{for (i = 2; i <= NF; i++) if ($i == "IOPS") printf "%d\n", $(i-1)}'
}

median() { sort -n "$1" | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }

i=0
while [ $i -lt "$ROUNDS" ]; do
    fio_iops >>"$work/fio"
    soft_iops 1 >>"$work/soft1"
    soft_iops 2 >>"$work/soft2"
    i=$((i + 1))
done

grep -m 1 -o 'file .*' "$work/soft.out" | sed 's/^/backend:      /'
echo "rounds:       $ROUNDS of $SECONDS_EACH s, 4 KiB random read, depth $DEPTH"
echo "load average: $(cut -d' ' -f1-3 /proc/loadavg)"
fio=$(median "$work/fio") soft1=$(median "$work/soft1") soft2=$(median "$work/soft2")
echo "fio io_uring:          $fio IOPS ($(tr '\n' ' ' <"$work/fio"))"
echo "soft, driver's thread: $soft1 IOPS ($(tr '\n' ' ' <"$work/soft1"))"
echo "soft, own thread:      $soft2 IOPS ($(tr '\n' ' ' <"$work/soft2"))"
awk -v f="$fio" -v a="$soft1" -v b="$soft2" -v m="$MINIMUM" 'BEGIN {
    printf "ratios:                %.2f and %.2f (at least %.2f wanted of the better)\n", a / f, b / f, m
    exit a / f < m && b / f < m
}'
