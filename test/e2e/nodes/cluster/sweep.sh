#!/usr/bin/env bash
# Removes what is left of real nodes once their processes have ended. There are sixteen
# slots of a machine for clusters; each has its control groups and its bridge.
#
#   sweep.sh guard SLOT   wait for the end of standard input, then sweep the slot
#   sweep.sh slot SLOT    sweep a slot, whoever uses it
#   sweep.sh stale        sweep the slots that nobody uses
#   sweep.sh left SLOT    say what there is in a slot, whoever uses it; fail if anything
#   sweep.sh check        say what there is in slots that nobody uses; fail if anything
set -uo pipefail

# groups SLOT: the control groups of a slot, one hierarchy a line.
groups() {
	local dir
	for dir in /sys/fs/cgroup/supercargo-nodes/"$1" /sys/fs/cgroup/*/supercargo-nodes/"$1"; do
		[[ ! -d $dir ]] || echo "$dir"
	done
}

# links SLOT: those that join its nodes, and the bridge between them.
links() {
	local link
	for link in /sys/class/net/scn"$1"{-*,}; do
		[[ ! -e $link ]] || echo "${link##*/}"
	done
}

# folder SLOT: where its nodes keep what they keep.
folder() { echo "${NODES_DIR:-/var/tmp/supercargo-nodes}/run/$1/"; }

# processes SLOT: what runs on its nodes and is in no control group of theirs. All that
# is told of their folder, and is not in the process namespace that we are in.
processes() {
	local file process here
	for file in $(grep -lF -f <(folder "$1") /proc/[0-9]*/cmdline 2>/dev/null); do
		process=${file//[!0-9]/}
		here=$(readlink "/proc/$process/ns/pid") || continue # it has just ended
		[[ $here == "$(readlink /proc/self/ns/pid)" ]] || echo "$process"
	done
}

# unused SLOT COMMAND...: runs COMMAND if nobody has the slot, and has it meanwhile. Its
# user holds the lock, and after that the user's guard.
unused() {
	local file=/run/lock/supercargo-nodes-$1 code=0
	shift
	exec 7>"$file" || return
	if flock -n 7; then "$@" || code=$?; fi
	exec 7>&-
	return "$code"
}

# end GROUPS...: kills all in control groups. What is frozen must thaw to die.
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
	for link in $(links "$1"); do ip link delete "$link" 2>/dev/null; done # the kernel may have been faster
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
