#!/usr/bin/env bash
# Fills the table of all workloads and placers, as kernels over arrays larger than GPU
# memory, in as many visits to a machine as it takes, and prints it.
#
#   scripts/tier-table.sh fill TRITIER DIR   run what is missing in DIR, then print it
#   scripts/tier-table.sh table DIR          print what is there
#   scripts/tier-table.sh missing DIR        list what is missing
#
# fill ends with 0 when nothing is missing any more, with 3 when its time was up: call it
# again. DIR/cells.tsv has a line for each run that has ended. A cell is REPEAT runs that
# are timed, and one, not timed, that is recorded and replayed by the simulator with the
# same sizes; where accesses are too many, those to one in some pages, as a miniature.
# One command makes all missing cells of a workload, which is generated once for them.
#
# Environment:
#   SIZE T1 T2 PAGE MODEL THREADS SEED   of every cell (20GiB, 2GiB, 8GiB, 64KiB,
#                4x980pro, 8, 1); MODEL=none: drives that are not paced
#   LIMIT        seconds that this fill may take (540), and CELLS, one command (as LIMIT)
#   REPEAT       timed runs of a cell (1; with 0 the recorded one has to do, whose times
#                and CPU seconds have the recording in them)
#   RECORD       recorded runs of a cell (1; 0: none, and nothing is simulated)
#   WORKLOADS POLICIES   which ones (all; the four placers with t1=clock,t2=fifo)
#   ITERATIONS SAMPLE    for every workload, instead of those below
#   KEEP_TRACES  1: leave the traces in DIR, for tritier replay (some hundred MB each)
#
# On an H200 with 16 cores a run takes about 12 s with opening, filling and checking, beside
# 1 to 6 s of its kernels (embedding-gather 22 to 43 s) and, once a command, reference results
# of up to 16 s or a graph to generate, 20 GiB reckoned at a minute: with REPEAT=0 the six programs
# without a graph took 482 s. Fill once so, then without.
#
# Host memory: the store (25 GiB), T2 (8 GiB), and the reference result, for backprop
# about 31 GiB while it is computed, once a command; a graph (17 GiB, and half of that more
# while it is generated), whose searches are checked by what proves a result right, without
# a second one. GOMEMLIMIT (80GiB) keeps garbage from adding to it.
set -uo pipefail

all='multi-vector-add embedding-gather pathfinder hotspot srad backprop bfs pagerank sssp'
placers='bypass{t1=clock,t2=fifo} tier-order{t1=clock,t2=fifo} random{t1=clock,t2=fifo} gmt-reuse{t1=clock,t2=fifo}'
# Iterations make a run some seconds of SSD traffic; one in so many pages is recorded.
declare -A iterations=([multi-vector-add]=2 [embedding-gather]=1 [pathfinder]=1 [hotspot]=4 [srad]=2 [backprop]=1 [bfs]=1 [pagerank]=2 [sssp]=1)
declare -A sample=([multi-vector-add]=1 [embedding-gather]=16 [pathfinder]=1 [hotspot]=1 [srad]=1 [backprop]=1 [bfs]=64 [pagerank]=256 [sssp]=256)

workloads=${WORKLOADS:-$all} policies=${POLICIES:-$placers}
repeat=${REPEAT:-1} record=${RECORD:-1}
settings="size ${SIZE:-20GiB}, T1 ${T1:-2GiB}, T2 ${T2:-8GiB}, pages of ${PAGE:-64KiB}, drives ${MODEL:-4x980pro}, ${THREADS:-8} service threads, seed ${SEED:-1}, iterations ${ITERATIONS:-as set}"

# have WORKLOAD POLICY KIND counts the runs in DIR: timed, or recorded.
have() { awk -F '\t' -v w="$1" -v p="$2" -v k="$3" '$1 == w && $2 == p && $3 == k { n++ } END { print n + 0 }' "$dir/cells.tsv"; }

# lacking WORKLOAD sets need to the policies with the fewest runs, times to how many
# timed runs they lack and traces to 1 if a recorded one too.
lacking() {
	local p t r
	need='' times=0 traces=0
	for p in $policies; do
		t=$((repeat - $(have "$1" "$p" timed))) r=$((record - $(have "$1" "$p" recorded)))
		[ $t -gt 0 ] || t=0
		[ $r -gt 0 ] || r=0
		[ $((t + r)) -gt 0 ] || continue
		[ -z "$need" ] && times=$t traces=$r
		[ "$t $r" = "$times $traces" ] && need+=${need:+,}$p
	done
	[ -n "$need" ]
}

missing() {
	local w some=1
	for w in $workloads; do
		while read -r p; do
			local t=$((repeat - $(have "$w" "$p" timed))) r=$((record - $(have "$w" "$p" recorded)))
			if [ $t -gt 0 ] || [ $r -gt 0 ]; then
				echo "$w $p: $((t > 0 ? t : 0)) timed, $((r > 0 ? r : 0)) recorded"
				some=0
			fi
		done < <(printf '%s\n' $policies)
	done
	return $some
}

# cells WORKLOAD prints a line for each run in the JSON of tritier run: by the depth that
# its lines are indented to.
cells() {
	awk -v w="$1" '
	function value(line) { sub(/^ *"[^"]*": /, "", line); sub(/,$/, "", line); gsub(/^"|"$/, "", line); return line }
	function key(line) { sub(/^ *"/, "", line); sub(/".*/, "", line); sub(/^modelled_/, "", line); return line }
	/^  "interrupted": true/ { cut = 1 }
	/^    [{]/ { delete row; runs = 0 }
	/^      "each_run"/ { each = 1 }
	/^      \]/ { each = 0 }
	/^      "[^"]*": [^[{]/ { row[key($0)] = value($0) }
	each && /^        [{]/ { runs++ }
	each && /^          "/ { run[runs, key($0)] = value($0) }
	/^    [}]/ && runs > 0 {
		for (i = 1; i <= runs; i++) {
			rec = run[i, "recorded"] == "true"
			if (cut && (run[i, "verified"] != "true" || rec && !("simulated_pages_one_in" in row))) continue
			printf "%s\t%s\t%s\t%s", w, row["policy"], rec ? "recorded" : "timed", run[i, "verified"] == "true" ? "verified" : "FAILED"
			n = split("run_seconds kernel_seconds t1_hits t2_hits t3_fetches overwrites ssd_read_bytes ssd_written_bytes cpu_seconds service_cpu_seconds accesses", name, " ")
			for (j = 1; j <= n; j++) printf "\t%s", run[i, name[j]]
			if (rec) printf "\t%s\t%s\t%s\t%s", row["ssd_reads_with_setup"], row["simulated_ssd_reads_with_setup"], row["simulated_pages_one_in"], row["lost_accesses"]
			printf "\n"
		}
	}'
}

# make_cells WORKLOAD SECONDS runs the cells that lacking has found.
make_cells() {
	local w=$1 limit=$2 rc start=$SECONDS flags=()
	[ "$traces" = 0 ] || flags+=(--record "$dir/$w-%.ttrc" --record-sample "${SAMPLE:-${sample[$w]}}")
	[ "${MODEL:-4x980pro}" = none ] || flags+=(--model "${MODEL:-4x980pro}")
	echo "== $w: $need, $times timed, $traces recorded, at most $limit s"
	GOMEMLIMIT=${GOMEMLIMIT:-80GiB} timeout -s INT -k 60 "$limit" "$tritier" run "$w" --engine gpu --program kernel --size "${SIZE:-20GiB}" --t1 "${T1:-2GiB}" --t2 "${T2:-8GiB}" --page "${PAGE:-64KiB}" \
		--threads "${THREADS:-8}" --seed "${SEED:-1}" --iterations "${ITERATIONS:-${iterations[$w]}}" --policy "$need" --repeat $((times + traces)) \
		"${flags[@]}" --json >"$dir/last.json" 2>"$dir/$w.log"
	rc=$?
	cells "$w" <"$dir/last.json" >"$dir/last.tsv"
	cat "$dir/last.tsv" >>"$dir/cells.tsv"
	[ "${KEEP_TRACES:-}" = 1 ] || rm -f "$dir/$w"-*.ttrc
	echo "   $(wc -l <"$dir/last.tsv") runs in $((SECONDS - start)) s, status $rc"
	[ $rc = 0 ] || tail -n 3 "$dir/$w.log"
	return $rc
}

fill() {
	local w end=$((SECONDS + ${LIMIT:-540})) left rc failed=0
	if [ -e "$dir/settings" ] && [ "$(cat "$dir/settings")" != "$settings" ]; then
		echo "$dir has cells of other settings: $(cat "$dir/settings"); these are: $settings. Take another folder." >&2
		return 2
	fi
	echo "$settings" >"$dir/settings"
	for w in $workloads; do
		while lacking "$w"; do
			left=$((end - SECONDS))
			[ $left -ge 20 ] || return 3
			[ $left -le "${CELLS:-$left}" ] || left=$CELLS
			make_cells "$w" $left
			rc=$?
			[ $rc != 124 ] || break # what has ended is kept; the others take their turn
			[ $rc = 0 ] || { failed=1 && break; }
		done
	done
	[ $failed = 0 ] || return 1
	missing >/dev/null && return 3
	return 0
}

# table prints the medians of what is there.
table() {
	[ -s "$dir/cells.tsv" ] || { echo "no cell has been run"; return 0; }
	cat "$dir/settings" 2>/dev/null
	awk -F '\t' -v order="$all" -v placers="$placers ${POLICIES:-}" '
	function median(list,   v, n, i, j, x) {
		n = split(list, v, " ")
		for (i = 2; i <= n; i++) {
			x = v[i] + 0
			for (j = i - 1; j >= 1 && v[j] + 0 > x; j--) v[j + 1] = v[j]
			v[j + 1] = x
		}
		low = v[1]; high = v[n]
		return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
	}
	function count(v) { return sprintf("%.0f", v) }
	function gib(v) { return sprintf("%.2f", v / 1073741824) }
	function add(text) { row[rows, ++fields[rows]] = text; if (length(text) > width[fields[rows]]) width[fields[rows]] = length(text) }
	{ c = $1 SUBSEP $2; seen[c] = 1 }
	$4 != "verified" { bad[c]++ }
	$3 == "timed" { n[c]++; for (i = 5; i <= 15; i++) timed[c, i] = timed[c, i] " " $i }
	$3 == "recorded" { for (i = 5; i <= 15; i++) traced[c, i] = traced[c, i] " " $i; live[c] = live[c] " " $16; sim[c] = sim[c] " " $17; one[c] = $18; lost[c] += $19 }
	END {
		rows = 1
		m = split("workload;placer;runs;run s;least;most;kernel s;x bypass;T1 hits;T2 hits;T3 fetches;SSD read GiB;written GiB;CPU s;drives CPU s;SSD reads, recorded;simulated;differ %;pages, 1 in;result", head, ";")
		for (i = 1; i <= m; i++) add(head[i])
		workloads = split(order, w, " ")
		split("", done); policies = 0
		n_p = split(placers, p, " ")
		for (i = 1; i <= n_p; i++) if (!(p[i] in done)) { done[p[i]] = 1; list[++policies] = p[i] }
		for (a = 1; a <= workloads; a++) for (b = 1; b <= policies; b++) {
			c = w[a] SUBSEP list[b]
			if (!(c in seen)) continue
			rows++
			name = list[b]; sub(/[{].*/, "", name)
			add(w[a]); add(name); add(n[c] > 0 ? n[c] : "recorded")
			if (n[c] == 0) for (i = 5; i <= 15; i++) timed[c, i] = traced[c, i]
			if (n[c] > 0 || c in live) {
				t[c] = median(timed[c, 5])
				add(sprintf("%.2f", t[c])); add(sprintf("%.2f", low)); add(sprintf("%.2f", high))
				add(sprintf("%.2f", median(timed[c, 6])))
				first = w[a] SUBSEP list[1]
				add(first in t && t[c] > 0 ? sprintf("%.2f", t[first] / t[c]) : "-")
				add(count(median(timed[c, 7]))); add(count(median(timed[c, 8]))); add(count(median(timed[c, 9])))
				add(gib(median(timed[c, 11]))); add(gib(median(timed[c, 12])))
				add(sprintf("%.2f", median(timed[c, 13]))); add(sprintf("%.2f", median(timed[c, 14])))
			} else for (i = 4; i <= 15; i++) add("-")
			if (c in live) {
				l = median(live[c]); s = median(sim[c])
				add(count(l)); add(count(s)); add(l > 0 ? sprintf("%+.1f", 100 * (s / l - 1)) : "-"); add(one[c])
			} else for (i = 16; i <= 19; i++) add("-")
			add(bad[c] > 0 ? "FAILED" : lost[c] > 0 ? "verified, accesses lost" : "verified")
			if (name == "gmt-reuse" && c in t && first in t && t[c] > t[first]) slower = slower sprintf("\n  %s: %.2f s, bypass %.2f s", w[a], t[c], t[first])
		}
		for (i = 1; i <= rows; i++) {
			line = ""
			for (j = 1; j <= fields[i]; j++) line = line sprintf(j <= 2 ? "%-" width[j] "s  " : "%" width[j] "s  ", row[i, j])
			sub(/ +$/, "", line)
			print line
		}
		if (slower != "") print "gmt-reuse takes longer than bypass in" slower
	}' "$dir/cells.tsv"
}

usage() { sed -n '2,34s/^# \{0,1\}//p' "$0" >&2 && exit 2; }

case ${1:-} in
fill)
	[ -n "${3:-}" ] || usage
	tritier=$2 dir=$3
	mkdir -p "$dir" && touch "$dir/cells.tsv" || exit 1
	fill
	status=$?
	[ $status = 2 ] || table
	exit $status
	;;
table | missing)
	[ -d "${2:-}" ] || usage
	dir=$2
	touch "$dir/cells.tsv" && "$1"
	;;
*) usage ;;
esac
