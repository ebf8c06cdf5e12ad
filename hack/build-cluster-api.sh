#!/usr/bin/env bash
# Builds cluster-api's manager at the version in lab/playground/cluster-api/go.mod: build-cluster-api.sh OUTPUT
#
# One line is changed. The manager's webhook server has a flag for the port but none for the address, and
# would listen on all networks of the machine. Here it listens only on 127.0.0.1, like everything in a
# playground.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$PWD/$1 module=lab/playground/cluster-api capi=sigs.k8s.io/cluster-api

# A copy that can be changed. Its path is always the same, so that Go's build cache recognizes it.
copy=$PWD/dist/build/cluster-api
rm -rf "$copy"
mkdir -p "$copy"
go -C "$module" mod download $capi
read -r dir version < <(go -C "$module" list -m -f '{{.Dir}} {{.Version}}' $capi)
tar -C "$dir" -c --exclude='*_test.go' --exclude=./docs --exclude=./test --exclude=./logos . | tar -C "$copy" -x --mode=u+w
sed -i 's/^\t*Port: *webhookPort,$/Host: "127.0.0.1", &/' "$copy/core/main.go"
if [[ $(diff "$dir/core/main.go" "$copy/core/main.go" | grep -c '^>') != 1 ]]; then
	echo "build cluster-api: core/main.go no longer sets the port of its webhooks as expected: adapt $0" >&2
	exit 1
fi
# Not in the folder of the module, whose files would change.
mod=$PWD/dist/build/cluster-api.mod
cp "$module/go.mod" "$mod"
cp "$module/go.sum" "${mod%.mod}.sum"
go mod edit -replace "$capi=$copy" "$mod"
IFS=. read -r major minor _ <<<"${version#v}"
go -C "$module" build -mod=readonly -buildvcs=false -modfile "$mod" -o "$output" -ldflags "-s -w
	-X $capi/version.gitVersion=$version -X $capi/version.gitMajor=$major -X $capi/version.gitMinor=$minor" $capi/core
