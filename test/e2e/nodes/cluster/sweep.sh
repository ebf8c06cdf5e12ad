#!/usr/bin/env bash
# Removes leftovers of real nodes whose processes have ended. A machine has sixteen slots for clusters; each
# slot has its control groups and its bridge.
#
#   sweep.sh guard SLOT   wait for the end of standard input, then sweep the slot
#   sweep.sh slot SLOT    sweep a slot, even if a process uses it
#   sweep.sh stale        sweep all slots that no process uses
#   sweep.sh left SLOT    list what exists in a slot, even if a process uses it; fail if anything does
#   sweep.sh check        list what exists in slots that no process uses; fail if anything does
set -uo pipefail

# groups SLOT: prints the control groups of a slot, one hierarchy per line.
groups() {
	local dir
	for dir in /sys/fs/cgroup/supercargo-nodes/"$1" /sys/fs/cgroup/*/supercargo-nodes/"$1"; do
		[[ ! -d $dir ]] || echo "$dir"
	done
}

# links SLOT: prints the network links of its nodes, and the bridge between them.
links() {
	local link
	for link in /sys/class/net/scn"$1"{-*,}; do
		[[ ! -e $link ]] || echo "${link##*/}"
	done
}

# folder SLOT: prints the folder with the state of its nodes.
folder() { echo "${NODES_DIR:-/var/tmp/supercargo-nodes}/run/$1/"; }

# processes SLOT: prints processes of its nodes that are in none of their control groups: those whose command
# line names the folder of the slot, and that are not in our PID namespace.
processes() {
	local file process here
	for file in $(grep -lF -f <(folder "$1") /proc/[0-9]*/cmdline 2>/dev/null); do
		process=${file//[!0-9]/}
		here=$(readlink "/proc/$process/ns/pid") || continue # it has just ended
		[[ $here == "$(readlink /proc/self/ns/pid)" ]] || echo "$process"
	done
}

# unused SLOT COMMAND...: runs COMMAND if no process uses the slot, and holds the slot meanwhile. Its user
# holds the lock, and after that the user's guard.
unused() {
	local file=/run/lock/supercargo-nodes-$1 code=0
	shift
	exec 7>"$file" || return
	if flock -n 7; then "$@" || code=$?; fi
	exec 7>&-
	return "$code"
}

# end GROUPS...: kills all processes in control groups. Frozen processes must be thawed to end.
end() {
	find "$@" -name freezer.state -exec sh -c 'for f; do echo THAWED >"$f"; done' _ {} + 2>/dev/null
	find "$@" -name cgroup.freeze -exec sh -c 'for f; do echo 0 >"$f"; done' _ {} + 2>/dev/null
	find "$@" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u | xargs -r kill -KILL 2>/dev/null
}

slot() { # SLOT
	local link groups processes until=$((SECONDS + 30))
	while mapfile -t groups < <(groups "$1") && mapfile -t processes < <(processes "$1") &&
		((${#groups[@]} + ${#processes[@]})); do
		if ((SECONDS >= until)); then
			echo "sweep: slot $1: still there after 30 s: ${groups[*]} ${processes[*]}" >&2
			return 1
		fi
		((${#processes[@]} == 0)) || kill -KILL "${processes[@]}" 2>/dev/null
		if ((${#groups[@]})); then
			end "${groups[@]}"
			find "${groups[@]}" -depth -type d -exec rmdir {} + 2>/dev/null
		fi
		sleep 0.05
	done
	for link in $(links "$1"); do ip link delete "$link" 2>/dev/null; done # the kernel may have removed it already
	rmdir /sys/fs/cgroup/supercargo-nodes /sys/fs/cgroup/*/supercargo-nodes 2>/dev/null # with the last slot
	return 0
}

guard() { # SLOT
	trap '' INT TERM HUP
	cat >/dev/null
	slot "$1"
}

stale() {
	local i code=0
	for i in {0..15}; do
		unused "$i" slot "$i" || code=1
	done
	return "$code"
}

left() { # SLOT
	local found
	found=$(groups "$1"; links "$1" | sed 's/^/link /'; processes "$1" | sed 's/^/process /'; grep -F " $(folder "$1")" /proc/self/mounts)
	[[ -n $found ]] || return 0
	printf 'left in slot %d:\n%s\n' "$1" "$found"
	return 1
}

check() {
	local i code=0
	for i in {0..15}; do
		unused "$i" left "$i" || code=1
	done
	return "$code"
}

verb=${1-}
shift
case $verb in
guard | slot | stale | left | check) "$verb" "$@" ;;
*) echo "sweep: no verb $verb" >&2 && exit 2 ;;
esac
