#!/usr/bin/env bash
# Checks and times everything that needs a GPU, and prints a table.
#
#   scripts/gpu-check.sh                 where Go is: build, then run
#   scripts/gpu-check.sh build DIR       build the binaries into DIR (no GPU needed)
#   scripts/gpu-check.sh run DIR [OUT]   run prebuilt binaries; logs go to OUT
#
# A machine without Go takes DIR from one that has it, together with this
# checkout (nvcc, where present, compiles the sources in it).
#
# Environment: STEPS  which steps to run, by name (default: all)
#              SOAK   random batches of the soak test (default 100000)
#              STEP_LIMIT  seconds that one step may take (default 300)
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

# Packages with tests that need a GPU: test binary = the path with - for /.
packages="cuda cuda/device/selftest internal/pinned copyeng bamio/layout/check bamio/iobench"

build() {
	mkdir -p "$1"
	cd "$root" || exit 1
	export CGO_ENABLED=0
	go build -trimpath -ldflags='-s -w' -o "$1/tritier" ./cmd/tritier || exit 1
	for p in $packages; do
		go test -c -trimpath -ldflags='-s -w' -o "$1/$(echo "$p" | tr / -).test" "./$p" || exit 1
	done
	# NVML needs cgo; a machine without a C compiler does without.
	CGO_ENABLED=1 go build -trimpath -ldflags='-s -w' -o "$1/tritier-cgo" ./cmd/tritier 2>/dev/null || rm -f "$1/tritier-cgo"
}

table=
failed=0
# step NAME COMMAND...: runs it unless STEPS leaves it out, and notes the outcome.
step() {
	local name=$1 start=$SECONDS rc note
	shift
	case " ${STEPS:-$name} " in *" $name "*) ;; *) return ;; esac
	printf '\n== %s\n' "$name"
	timeout "${STEP_LIMIT:-300}" "$@" 2>&1 | tee "$out/$name.log"
	rc=${PIPESTATUS[0]}
	case $rc in 0) note=ok ;; 124) note="FAILED: over ${STEP_LIMIT:-300} s" ;; 77) note="skipped" ;; *) note="FAILED ($rc)" ;; esac
	case $rc in 0 | 77) ;; *) failed=1 ;; esac
	table+=$(printf '%-22s %6d s   %s' "$name" $((SECONDS - start)) "$note")$'\n'
}

# nvcc_check compiles every committed CUDA source with nvcc too.
nvcc_check() {
	command -v nvcc >/dev/null || { echo "no nvcc here"; return 77; }
	local rc=0 f
	for f in $(cd "$root" && find . -name '*.cu' -not -path './.carry/*' | sort); do
		echo "nvcc $f"
		nvcc -std=c++17 -arch=native -I "$root/cuda/device" -I "$root/bamio/device" -I "$root/tier/device" -c "$root/$f" -o /dev/null || rc=1
	done
	return $rc
}

# sanitize runs small cases under compute-sanitizer, where it is and works.
sanitize() {
	command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer here"; return 77; }
	compute-sanitizer --tool "$1" --error-exitcode 9 "$bin/bamio-iobench.test" -test.run 'TestLoadIsRight/.*(depth=2|depth=3|depth=16),' || return 1
	compute-sanitizer --tool "$1" --error-exitcode 9 "$bin/copyeng.test" -test.run 'TestSmallGPU' || return 1
}

run() {
	bin=$(cd "$1" && pwd) || exit 1
	out=${2:-$(mktemp -d)}
	mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
	export REQUIRE=gpu
	export -f nvcc_check sanitize
	export root bin
	export XDG_CONFIG_HOME=${XDG_CONFIG_HOME:-$out/config} # calibrations of this run
	cd "$out" || exit 1
	local tritier=$bin/tritier
	[ -x "$bin/tritier-cgo" ] && "$bin/tritier-cgo" --version >/dev/null 2>&1 && tritier=$bin/tritier-cgo
	step doctor "$tritier" doctor
	step nvcc bash -c nvcc_check
	local p dir
	for dir in $packages; do
		p=$(echo "$dir" | tr / -)
		cd "$root/$dir" || exit 1 # tests that compile for the CPU read sources
		step "test-$p" "$bin/$p.test" -test.timeout 280s
		cd "$out" || exit 1
	done
	step calibrate "$tritier" calibrate
	step bench-copy "$tritier" bench copy --check
	step bench-copy-json bash -c "'$tritier' bench copy --json --plot copy.png >bench-copy.json"
	step io-rates env RATES=1 "$bin/bamio-iobench.test" -test.run TestRates -test.v -test.timeout 280s
	step bench-io "$tritier" bench io mem:2GiB --service-threads 8
	step memcheck bash -c 'sanitize memcheck'
	step synccheck bash -c 'sanitize synccheck'
	step soak env SOAK="${SOAK:-100000}" "$bin/copyeng.test" -test.run 'TestSoak' -test.v -test.timeout 280s
	printf '\n%s' "$table"
	echo "logs in $out"
	exit $failed
}

case ${1:-} in
build)
	[ -n "${2:-}" ] || { echo "build needs a folder" >&2; exit 2; }
	build "$(mkdir -p "${2:?build needs a folder}" && cd "$2" && pwd)"
	;;
run) run "${2:?run needs the folder that build wrote}" "${3:-}" ;;
"")
	dir=$(mktemp -d)
	(build "$dir") || exit 1
	run "$dir"
	;;
*) sed -n '2,14p' "$0" && exit 2 ;;
esac
