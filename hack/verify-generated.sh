#!/usr/bin/env bash
# Fails if `make generate` changes a file. The changes stay in the tree, ready to be committed.
set -euo pipefail
cd "$(dirname "$0")/.."

generated() {
	{
		find api lab/playground -name 'zz_generated.*' -type f
		find lab/playground/machines/crd -name '*supercargo.dev_*.yaml' -type f
		find manifests test/kit/rights/modes -type f
		echo lab/playground/cluster-api.yaml.gz
		echo docs/exported-metrics.md
		find docs/reference -type f
	} | sort
}

before=$(mktemp)
trap 'rm -f "$before"' EXIT
generated | xargs -r sha256sum >"$before"
make --no-print-directory generate
if ! diff "$before" <(generated | xargs -r sha256sum); then
	echo "generated files were stale: commit the ones that 'make generate' has just written" >&2
	exit 1
fi
