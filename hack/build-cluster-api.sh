#!/usr/bin/env bash
# Builds cluster-api's manager at the version in go.mod: build-cluster-api.sh OUTPUT LDFLAGS
#
# One line is changed. The manager's webhook server has a flag for the port but none for the address, and
# would listen on all networks of the machine. Here it listens only on 127.0.0.1, like everything in a
# playground.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$1 ldflags=$2

# A copy that can be changed. Its path is always the same, so that Go's build cache recognizes it.
copy=dist/build/cluster-api
rm -rf "$copy"
mkdir -p "$copy"
dir=$(go list -mod=readonly -f '{{.Dir}}' sigs.k8s.io/cluster-api)
tar -C "$dir" -c --exclude='*_test.go' --exclude=./docs --exclude=./test --exclude=./logos . | tar -C "$copy" -x --mode=u+w
sed -i 's/^\t*Port: *webhookPort,$/Host: "127.0.0.1", &/' "$copy/main.go"
if [[ $(diff "$dir/main.go" "$copy/main.go" | grep -c '^>') != 1 ]]; then
	echo "build cluster-api: main.go no longer sets the port of its webhooks as expected: adapt $0" >&2
	exit 1
fi
cp go.mod go.sum dist/build/
go mod edit -replace "sigs.k8s.io/cluster-api=./$copy" dist/build/go.mod
go build -mod=readonly -buildvcs=false -modfile dist/build/go.mod -ldflags "$ldflags" -o "$output" sigs.k8s.io/cluster-api
