#!/usr/bin/env bash
# Writes the module files for the versions of Kubernetes after the one in go.mod: go.1.36.mod and go.1.36.sum,
# and so on. They are go.mod with the libraries of that version. With -diff it writes nothing, prints what
# would change, and fails if anything would.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each version, with the matching controller-runtime and custom-metrics-apiserver.
versions="
1.36.3 v0.24.1 v1.36.0
1.37.2 v0.25.2 v1.37.0
"

# write VERSION CONTROLLER-RUNTIME CUSTOM-METRICS-APISERVER MOD
write() {
	local version=$1 staging=v0.${1#1.} mod=$4 own module
	sed -E \
		-e "s|^(\tk8s\.io/kubernetes) .*|\1 v$version|" \
		-e "s|^(\tsigs\.k8s\.io/controller-runtime) .*|\1 $2|" \
		-e "s|^(\tsigs\.k8s\.io/custom-metrics-apiserver) .*|\1 $3|" \
		-e '/^exclude \(/,/^\)/{/^\t/{/k8s\.io\/(api|apimachinery|client-go) /!d}}' \
		go.mod >"$mod"
	# The go.mod of Kubernetes replaces the modules released with it by folders of its own tree.
	own=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's|.*"GoMod": "\(.*\)",.*|\1|p')
	for module in $(sed -n 's|^\t*\(k8s.io/[a-z-]*\) => ./staging/.*|\1|p' "$own"); do
		if grep -q "^	$module v" "$mod"; then
			go mod edit -require "$module@$staging" "$mod"
		fi
		go mod edit -replace "$module=$module@$staging" "$mod"
	done
	go mod tidy -modfile "$mod"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
stale=0
while read -r version rest; do
	[[ $version ]] || continue
	name=go.${version%.*}
	cp go.sum "$scratch/$name.sum"
	[[ ! -e $name.sum ]] || sort -u go.sum $name.sum >"$scratch/$name.sum" # so that the sums are not requested again
	write "$version" $rest "$scratch/$name.mod"
	for file in "$name.mod" "$name.sum"; do
		if [[ ${1-} != -diff ]]; then
			cp "$scratch/$file" "$file"
		elif ! diff -u "$file" "$scratch/$file"; then
			stale=1
		fi
	done
done <<<"$versions"
if ((stale)); then
	echo "the module files of other Kubernetes versions are not up to date with go.mod: run make modules" >&2
	exit 1
fi
