#!/usr/bin/env bash
# Checks and times everything that needs a GPU, and prints a table.
#
#   scripts/gpu-check.sh                 where Go is: build, then run
#   scripts/gpu-check.sh build DIR       build the binaries into DIR (no GPU needed)
#   scripts/gpu-check.sh run DIR [OUT]   run prebuilt binaries; logs go to OUT
#   scripts/gpu-check.sh steps           list the steps
#
# A machine without Go takes DIR from one that has it, together with this
# checkout (nvcc, where present, compiles the sources in it).
#
# Environment: STEPS  which steps to run, by name (default: all); build makes only
#                     what they need
#              RESUME 1: leave out steps that succeeded in this OUT before
#              STEP_LIMIT  seconds that one step may take (default 300)
#              SOAK   random batches of the soak test (default 100000)
#              IO_DRIVE, IO_SECONDS  drive and length of a run of the io-* steps
#                     (default mem:2GiB and 0.3), which io-table puts together
#              MODEL  drives that the run-*, kernels-* and tier-table steps are
#                     paced as (default 4x980pro)
#              KERNELS_SIZE  arrays of the kernels-* steps (default 2GiB)
#              TABLE  folder of the tier-table step (default OUT/tier-table): the
#                     table is filled over several runs. Other variables of
#                     scripts/tier-table.sh pass through
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bin= out= tritier= listing= table= failed=0

# Packages with tests that need a GPU.
packages="cuda cuda/device/selftest internal/pinned internal/gpuinfo copyeng copyeng/pieces bamio/layout/check bamio/iobench
	tier/gpu tier/bench workload examples/ownkernel cmd/tritier ."

# Programs that tritier run has kernels for.
workloads="multi-vector-add pathfinder hotspot backprop srad bfs sssp pagerank embedding-gather"

# binary is the name of a package's test binary: its path with - for /.
binary() { if [ "$1" = . ]; then echo root.test; else echo "$(echo "$1" | tr / -).test"; fi; }

# tests says which tests of a package to run: of those with many others, the ones
# that need a GPU.
tests() {
	case $1 in
	cmd/tritier) echo '^(TestGPUScripts|TestDoctorGPU)$' ;;
	workload) echo 'Kernel|Device|TooFew' ;;
	.) echo 'GPU|Device' ;;
	*) echo . ;;
	esac
}

# steps are all that there is to run, in order.
steps() {
	local p n
	step doctor "$tritier" doctor
	step nvcc nvcc_check
	for p in $packages; do
		n=$(binary "$p")
		within=$root/$p step "test-${n%.test}" "$bin/$n" -test.run "$(tests "$p")" -test.timeout 280s
	done
	within=$root/internal/gpuinfo step test-internal-gpuinfo-cgo optional "$bin/internal-gpuinfo-cgo.test" -test.timeout 280s
	step calibrate "$tritier" calibrate
	step bench-copy "$tritier" bench copy --check
	step bench-copy-json into bench-copy.json "$tritier" bench copy --json --plot copy.png
	step io-rates env RATES=1 "$bin/bamio-iobench.test" -test.run TestRates -test.v -test.timeout 280s
	for n in 1 2 4 8; do
		step "io-gpu-$n" io_part gpu "$n" --warps 8,32,128
		step "io-cpu-$n" io_part cpu "$n" --queues 1,4
	done
	step io-table io_table
	step tier-rates env RATES=1 "$bin/tier-bench.test" -test.run TestBench -test.v -test.timeout 280s
	for n in host gpu; do
		step "run-$n" "$tritier" run multi-vector-add --engine "$n" --size 2GiB --policy 'bypass{t1=clock},tier-order{t1=clock,t2=fifo},random{t1=clock,t2=fifo},gmt-reuse' \
			--t1 10% --t2 40% --model "${MODEL:-4x980pro}" --threads 4
	done
	for n in $workloads; do
		step "kernels-$n" "$tritier" run "$n" --engine gpu --size "${KERNELS_SIZE:-2GiB}" --t1 10% --t2 40% --model "${MODEL:-4x980pro}" --threads 8 \
			--policy 'bypass{t1=clock},tier-order{t1=clock,t2=fifo},random{t1=clock,t2=fifo},gmt-reuse'
	done
	step tier-table tier_table
	step memcheck sanitize memcheck "$bin/bamio-iobench.test" "$bin/copyeng.test"
	step synccheck sanitize synccheck "$bin/bamio-iobench.test" "$bin/copyeng.test"
	step soak env SOAK="${SOAK:-100000}" "$bin/copyeng.test" -test.run 'TestSoak' -test.v -test.timeout 280s
}

# step NAME COMMAND...: runs it, in the folder $within or else in $out, unless STEPS
# leaves it out, and notes the outcome. While listing it only notes names, and what
# the chosen ones need.
step() {
	local name=$1 dir=${within:-$out} start=$SECONDS rc note arg chosen=
	shift
	case " ${STEPS:-$name} " in *" $name "*) chosen=1 ;; esac
	if [ -n "$listing" ]; then
		names+=" $name"
		[ -z "$chosen" ] || for arg in "$@"; do case $arg in *.test) needed+=" ${arg##*/}" ;; esac; done
		return
	fi
	[ -n "$chosen" ] || return
	if [ "${RESUME:-}" = 1 ] && [ -e "$out/$name.done" ]; then
		table+=$(printf '%-26s %6s     %s' "$name" - "ok before")$'\n'
		return
	fi
	rm -f "$out/$name.done"
	printf '\n== %s\n' "$name"
	# A shell of its own for each, since timeout knows no functions.
	(cd "$dir" && exec timeout -k 10 "${STEP_LIMIT:-300}" bash -c '"$@"' step "$@") 2>&1 | tee "$out/$name.log"
	rc=${PIPESTATUS[0]}
	case $rc in 0) note=ok ;; 124 | 137) note="FAILED: over ${STEP_LIMIT:-300} s" ;; 77) note="skipped" ;; 75) note="time was up: run it again" ;; *) note="FAILED ($rc)" ;; esac
	case $rc in 0) touch "$out/$name.done" ;; 75 | 77) ;; *) failed=1 ;; esac
	table+=$(printf '%-26s %6d s   %s' "$name" $((SECONDS - start)) "$note")$'\n'
}

# list_steps sets names, and needed to the test binaries of the chosen ones. A
# name in STEPS that is no step ends everything: it would be left out silently.
list_steps() {
	local s
	names='' needed='' listing=1
	steps
	listing=
	for s in ${STEPS:-}; do
		case "$names " in *" $s "*) ;; *)
			echo "STEPS: there is no step $s; the steps are$names" >&2
			exit 2
			;;
		esac
	done
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

# sanitize TOOL IOBENCH COPYENG runs small cases under compute-sanitizer, where it
# is and works.
sanitize() {
	command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer here"; return 77; }
	compute-sanitizer --tool "$1" --error-exitcode 9 "$2" -test.run 'TestLoadIsRight/.*(depth=2|depth=3|depth=16),' || return 1
	compute-sanitizer --tool "$1" --error-exitcode 9 "$3" -test.run 'TestSmallGPU' || return 1
}

# optional runs a binary that could not be built everywhere, or does not start here.
optional() {
	[ -x "$1" ] && "$1" -test.list NoTestHasThisName >/dev/null 2>&1 || { echo "no ${1##*/} that starts here"; return 77; }
	"$@"
}

# into FILE COMMAND... keeps standard output in a file.
into() { "${@:2}" >"$1"; }

# io_part INITIATOR THREADS FLAGS... measures reads with so many service threads.
io_part() {
	"$tritier" bench io "${IO_DRIVE:-mem:2GiB}" --initiator "$1" --service-threads "$2" --size 512B,4KiB,64KiB,1MiB --runs 5 --seconds "${IO_SECONDS:-0.3}" "${@:3}"
}

# io_table prints the rows of all io-* steps in this OUT, from whichever run.
io_table() {
	local logs
	logs=$(ls "$out"/io-gpu-[0-9]*.log "$out"/io-cpu-[0-9]*.log 2>/dev/null)
	[ -n "$logs" ] || { echo "no io-* step has run"; return 77; }
	# Cells are two blanks or more apart. Some awks count bytes, not characters.
	awk '
	{ line = $0; gsub(/µ/, "u", line); sub(/^ +/, "", line); sub(/ +$/, "", line); n = split(line, cell, /  +/) }
	cell[1] == "by" && rows == 0 || cell[1] == "gpu" || cell[1] == "cpu" {
		rows++
		fields[rows] = n
		for (i = 1; i <= n; i++) {
			text[rows, i] = cell[i]
			if (length(cell[i]) > width[i]) width[i] = length(cell[i])
		}
	}
	END {
		for (r = 1; r <= rows; r++) {
			line = ""
			for (i = 1; i <= fields[r]; i++) line = line sprintf("  %" width[i] "s", text[r, i])
			print line
		}
		if (rows < 2) exit 1
	}' $logs || { echo "no row was measured"; return 1; }
}

# tier_table fills the table of workloads and placers for as long as a step may take.
tier_table() {
	bash "$root/scripts/tier-table.sh" fill "$tritier" "${TABLE:-$out/tier-table}"
	local rc=$?
	[ $rc != 3 ] || return 75
	return $rc
}

# build FOLDER makes what the chosen steps need, after list_steps.
build() {
	local p b
	cd "$root" || exit 1
	export CGO_ENABLED=0
	go build -trimpath -ldflags='-s -w' -o "$1/tritier" ./cmd/tritier || exit 1
	for p in $packages; do
		b=$(binary "$p")
		case "$needed " in *" $b "*) go test -c -trimpath -ldflags='-s -w' -o "$1/$b" "./$p" || exit 1 ;; esac
	done
	# NVML needs cgo; a machine without a C compiler does without.
	CGO_ENABLED=1 go build -trimpath -ldflags='-s -w' -o "$1/tritier-cgo" ./cmd/tritier 2>/dev/null || rm -f "$1/tritier-cgo"
	case "$needed " in *" internal-gpuinfo-cgo.test "*)
		CGO_ENABLED=1 go test -c -trimpath -ldflags='-s -w' -o "$1/internal-gpuinfo-cgo.test" ./internal/gpuinfo 2>/dev/null || rm -f "$1/internal-gpuinfo-cgo.test"
		;;
	esac
}

# run FOLDER [OUT] runs the steps, after list_steps.
run() {
	bin=$(cd "$1" && pwd) || exit 1
	out=${2:-$(mktemp -d)}
	mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
	tritier=$bin/tritier
	[ -x "$bin/tritier-cgo" ] && "$bin/tritier-cgo" --version >/dev/null 2>&1 && tritier=$bin/tritier-cgo
	export REQUIRE=gpu
	export XDG_CONFIG_HOME=${XDG_CONFIG_HOME:-$out/config} # calibrations of this run
	export -f nvcc_check sanitize optional into io_part io_table tier_table
	export LIMIT=${LIMIT:-$((${STEP_LIMIT:-300} - 70))}
	export root bin out tritier
	steps
	printf '\n%s' "$table"
	echo "logs in $out"
	exit $failed
}

case ${1:-} in
build)
	[ -n "${2:-}" ] || { echo "build needs a folder" >&2; exit 2; }
	list_steps
	dir=$(mkdir -p "$2" && cd "$2" && pwd) || exit 1
	build "$dir"
	;;
run)
	[ -n "${2:-}" ] || { echo "run needs the folder that build wrote" >&2; exit 2; }
	list_steps
	run "$2" "${3:-}"
	;;
steps)
	list_steps
	printf '%s\n' $names
	;;
"")
	list_steps # before anything is built
	dir=$(mktemp -d)
	(build "$dir") || exit 1
	run "$dir"
	;;
*) sed -n '2,25p' "$0" >&2 && exit 2 ;;
esac
