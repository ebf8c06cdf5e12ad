#!/usr/bin/env bash
# Verifies that `make vendor` suffices to build kube-scheduler: it vendors a copy of this tree, and builds
# from it with an empty module cache and no network.
#
# The build cache is shared. It holds compiled packages, never sources, so a missing vendored file still fails
# the build.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/modcache"
tar -c --exclude-vcs --exclude=./bin --exclude=./dist --exclude=./vendor . | tar -x -C "$work/tree"

echo "vendoring"
make --no-print-directory -C "$work/tree" vendor
du -sh "$work/tree/vendor" | cut -f1 | sed 's/^/vendor: /'

isolate=()
if [[ $EUID -eq 0 ]] && unshare --net true 2>/dev/null; then
	isolate=(unshare --net) # a network namespace whose only interface is a loopback that is down
fi
echo "building without network (${isolate[*]:-GOPROXY=off only})"
start=$SECONDS
GOCACHE=$(go env GOCACHE) GOMODCACHE=$work/modcache GOPROXY=off GOFLAGS=-mod=vendor CGO_ENABLED=0 \
	"${isolate[@]}" go -C "$work/tree" build -trimpath -buildvcs=false -o "$work/kube-scheduler" ./cmd/kube-scheduler
if [[ -n "$(ls -A "$work/modcache/cache" 2>/dev/null)" ]]; then
	echo "the build filled the module cache" >&2
	exit 1
fi
"$work/kube-scheduler" --version
echo "vendored build works ($((SECONDS - start)) s)"
