#!/usr/bin/env bash
# Checks a change before it is committed, in at most two minutes once everything has been compiled: builds all
# packages, checks import directions, runs the unit tests of the packages that changed and of those that import
# them directly, and lints the changed lines.
#
# BASE is the commit to compare with: by default the last one that is on main too, or the one before when there
# is no difference. CHECK_SECONDS bounds the tests of packages that did not change themselves. NOT_UNIT matches
# the packages whose tests need more than Go; of these, tests are only compiled, by the linters.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${CHECK_SECONDS:-40} not_unit=${NOT_UNIT:?} lint=${LINT:?}

step() { # step WHAT COMMAND...
	local start=$SECONDS
	printf '== %s\n' "$1"
	"${@:2}"
	printf '== %s: ok, %d s\n' "$1" $((SECONDS - start))
}

if [ -z "${BASE:-}" ]; then
	BASE=$(git merge-base HEAD 'main@{upstream}' 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
	[ "$BASE" != "$(git rev-parse HEAD)" ] || [ -n "$(git status --porcelain)" ] || BASE=HEAD~
fi
files=$({ git diff --name-only "$BASE" && git ls-files --others --exclude-standard; } | sort -u)
[ -n "$files" ] || { echo "Nothing differs from $BASE."; exit 0; }

# One line for each package: its folder, how many packages it depends on, what it and its tests import.
packages=$(go list -f '{{.ImportPath}} {{len .Deps}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | sed "s|$(go list -m)|.|g")

# The package of a file is that of the nearest folder above it that is one. Modules inside the repository have
# their own tests.
changed=$(awk -v files="$files" '
	{ is[$1] }
	END {
		n = split(files, file, "\n")
		for (i = 1; i <= n; i++) {
			if (file[i] ~ /\.md$/ || file[i] == "Makefile") print "./test/docs"
			if (file[i] == "Makefile") print "./test/suites"
			if (file[i] ~ /^manifests\//) print "./test/manifests"
			for (dir = "./" file[i]; sub(/\/[^\/]*$/, "", dir) && dir != ".";) {
				if (system("test -e " dir "/go.mod") == 0) { print dir > "/dev/stderr"; break }
				if (dir in is) { print dir; break }
			}
		}
	}' <<<"$packages" 2>/dev/null | sort -u)
importers=$(awk -v changed="$changed" '
	BEGIN { n = split(changed, c, "\n"); for (i = 1; i <= n; i++) is[c[i]] }
	!($1 in is) { for (i = 3; i <= NF; i++) if ($i in is) { print $2, $1; next } }' <<<"$packages" | sort -n | cut -d' ' -f2)

unit() { grep -vE "$not_unit" <<<"$1" | grep . || true; }

# Those with few dependencies are fast and come first. Tests that are still running at the end of the time are
# left to make test.
test_importers() {
	local status=0 packages
	packages=$(unit "$importers")
	timeout -s INT -k 5 "$seconds" go test -vet off $packages >"$log" 2>&1 || status=$?
	if [ "$status" -ne 0 ] && { [ "$status" -ne 124 ] || grep -qE '^(--- FAIL|panic:|FAIL.*\[.* failed\])' "$log"; }; then
		grep -vE '^ok |no test files|signal: interrupt' "$log"
		return 1
	fi
	printf '%d of %d packages tested' "$(grep -cE '^ok |no test files' "$log")" "$(wc -l <<<"$packages")"
	[ "$status" -eq 0 ] || printf ' in %d s: make test runs the rest' "$seconds"
	echo
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
build() { go list -export -f '{{""}}' ./... >/dev/null; } # compiles programs too, without linking them
step "build" build
step "imports and words" go test ./test/imports ./test/words
[ -z "$(unit "$changed")" ] || step "tests of what changed" go test -vet off $(unit "$changed")
[ -z "$(unit "$importers")" ] || step "tests of what imports it" test_importers
[ -z "$changed" ] || step "lint" "$lint" run --new-from-rev "$BASE" $changed
printf '== make check: ok, %d s\n' "$SECONDS"
