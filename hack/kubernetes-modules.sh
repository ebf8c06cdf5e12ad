#!/usr/bin/env bash
# Writes the module files for the versions of Kubernetes after the one in go.mod: go.1.36.mod and go.1.36.sum,
# and so on. They are go.mod with the libraries of that version. With -diff it writes nothing, prints what
# would change, and fails if anything would.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOTOOLCHAIN=auto # a version may need a newer Go than Supercargo

# Each version, with the matching controller-runtime and custom-metrics-apiserver.
versions="
1.36.3 v0.24.1 v1.36.0
1.37.2 v0.25.2 v1.37.0
1.38.0-beta.0 v0.25.2 v1.37.0
"

# Modules of a version that the module proxy does not serve. Nothing that kube-scheduler, its plugins or the
# simulator import is in them, but an API server cannot be built without them.
declare -A missing=([1.38.0-beta.0]="k8s.io/apiextensions-api k8s.io/ktesting")

# What a version has in other versions than its own go.mod says: structured-merge-diff, because the module proxy
# has no source of v7.0.1, and the client of Prometheus, because scheduler-plugins v0.35 compiles with no later one.
declare -A other=([1.38.0-beta.0]="sigs.k8s.io/structured-merge-diff/v7@v7.0.0 github.com/prometheus/client_golang@v1.24.1")

# write VERSION CONTROLLER-RUNTIME CUSTOM-METRICS-APISERVER MOD
write() {
	local version=$1 staging=v0.${1#1.} mod=$4 own module go
	sed -E \
		-e "s|^(\tk8s\.io/kubernetes) .*|\1 v$version|" \
		-e "s|^(\tsigs\.k8s\.io/controller-runtime) .*|\1 $2|" \
		-e "s|^(\tsigs\.k8s\.io/custom-metrics-apiserver) .*|\1 $3|" \
		-e '/^exclude \(/,/^\)/{/^\t/{/k8s\.io\/(api|apimachinery|client-go) v0\.37\.0$/!d}}' \
		go.mod >"$mod"
	for module in ${other[$version]-}; do
		go mod edit -replace "${module%@*}=$module" "$mod"
	done
	for module in ${missing[$version]-}; do
		go mod edit -exclude "$module@v0.0.0" -exclude "$module@$staging" "$mod" # what requires it does without
	done
	# The go.mod of Kubernetes replaces the modules released with it by folders of its own tree.
	own=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's|.*"GoMod": "\(.*\)",.*|\1|p')
	for module in $(sed -n 's|^\t*\(k8s.io/[a-z-]*\) => ./staging/.*|\1|p' "$own"); do
		[[ " ${missing[$version]-} " != *" $module "* ]] || continue
		if grep -q "^	$module v" "$mod"; then
			go mod edit -require "$module@$staging" "$mod"
		fi
		go mod edit -replace "$module=$module@$staging" "$mod"
	done
	if [[ ${missing[$version]-} ]]; then # packages that import the missing modules are found nowhere
		go=$(sed -n 's/^go //p' "$own") # with -e, tidy does not fetch the Go that it needs
		GOTOOLCHAIN=go$go go mod tidy -e -modfile "$mod" 2>"$scratch/tidy" || { cat "$scratch/tidy" >&2 && return 1; }
	else
		go mod tidy -modfile "$mod"
	fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
stale=0
while read -r version rest; do
	[[ $version ]] || continue
	name=go.$(cut -d. -f1,2 <<<"$version")
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
