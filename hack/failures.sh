#!/usr/bin/env bash
# Names the tests that failed in a run of make, each with its package and the first and last lines that it printed:
# what a test found comes first, what its programs printed follows. LOG is what make printed: it has the files that
# the run's test events are in. Without a failed test it prints the last lines of the log.
#
#   hack/failures.sh LOG
set -euo pipefail
cd "$(dirname "$0")/.."
tests=30 lines=12 # at most, and at most of each

mapfile -t events < <(grep -oE -- '--jsonfile [^ ]+' "$1" | cut -d' ' -f2 | sort -u)
summary=
if ((${#events[@]})); then
	# Its exit status is that of the tests that it repeats.
	summary=$(bin/tools/gotestsum --raw-command --format none --hide-summary skipped -- cat "${events[@]}" 2>&1 || true)
fi
if ! grep -q '^=== \(FAIL\|Errors\)' <<<"$summary"; then
	tail -n "$lines" "$1"
	exit
fi
awk -v tests="$tests" -v lines="$lines" '
	function flush(  i) {
		if (name != "" && ++count <= tests) {
			print name
			for (i = 1; i <= n; i++) {
				if (n <= lines || i <= lines / 2 || i > n - lines / 2) print substr(line[i], 1, 400)
				else if (i == lines / 2 + 1) printf "    ... %d lines\n", n - lines
			}
		}
		name = ""; n = 0
	}
	/^=== (FAIL: |Errors)/ { flush(); name = $0; next }
	/^(=== |DONE )/ { flush(); next }
	name != "" && NF { line[++n] = $0 }
	END { flush(); if (count > tests) printf "and %d more\n", count - tests }' <<<"$summary"
