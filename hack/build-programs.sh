#!/usr/bin/env bash
# Builds programs one after the other, and reports each program and its build time: go build prints nothing,
# and the first build compiles much of Kubernetes.
#
#   hack/build-programs.sh "COMMAND" TARGET...     runs COMMAND TARGET for each
#
# BUILD_HEARTBEAT is the interval in seconds at which it reports that it is still running.
set -euo pipefail
command=$1
shift
heartbeat=${BUILD_HEARTBEAT:-30}

if (($# == 1)); then
	echo "Building ${1##*/}. The first time this takes some minutes; later it takes seconds."
else
	echo "Building $# programs. The first time this compiles much of Kubernetes and takes ten minutes and more; later it takes seconds."
fi
# The build runs in the background. Without this trap, Ctrl-C would not stop it.
build=
trap '[ -z "$build" ] || kill "$build" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

n=0
for target in "$@"; do
	n=$((n + 1))
	name=${target##*/}
	echo "building $n of $#: $name …"
	began=$SECONDS
	# shellcheck disable=SC2086 # the command has arguments
	$command "$target" &
	build=$!
	next=$heartbeat
	while sleep 0.3 && kill -0 "$build" 2>/dev/null; do
		if ((SECONDS - began >= next)); then
			echo "building $n of $#: $name … $((SECONDS - began)) s so far"
			next=$((next + heartbeat))
		fi
	done
	wait "$build"
	build=
	echo "built $name in $((SECONDS - began)) s"
done
