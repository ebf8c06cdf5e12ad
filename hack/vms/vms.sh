#!/usr/bin/env bash
# Makes Debian virtual machines that tests use as nodes. They run systemd with control groups v2,
# and each has its own kernel, clock and disk. QEMU emulates them, so KVM is not needed. The
# control plane runs in the test's process.
#
#   vms.sh install [SUITE...]  make the disks of Debian releases (default: bookworm trixie)
#   vms.sh run COMMAND...      install, create the network, run COMMAND, and clean up
#   vms.sh check               list leftover machines and network devices; fail if there are any
#   vms.sh remove              remove the directory
#
# All can be repeated. Only one run at a time. Needs root, Debian, a Debian mirror, and the programs
# that `hack/nodes/nodes.sh install` builds.
#
# Environment:
#   VMS_DIR     the directory (default: /var/tmp/supercargo-vms)
#   NODES_DIR   the directory of nodes.sh (default: /var/tmp/supercargo-nodes)
#   NODE_AGENT  the node agent of the machines (default: bin/node-agent)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../.." && pwd)
root=${VMS_DIR:-/var/tmp/supercargo-vms}
programs=${NODES_DIR:-/var/tmp/supercargo-nodes}/bin
agent=${NODE_AGENT:-$project/bin/node-agent}
export VMS_DIR=$root

# The network of the machines, exported for the test.
bridge=scvm
export VMS_BRIDGE=$bridge VMS_NET=10.99.240

say() { printf '%s vms: %s\n' "$(date +%T)" "$*" >&2; }
die() {
	say "$*"
	exit 1
}

packages=(mmdebstrap qemu-system-x86 qemu-utils openssh-client e2fsprogs iproute2)

install_packages() {
	local missing=() package
	for package in "${packages[@]}"; do
		[[ $(dpkg-query -Wf '${Status}' "$package" 2>/dev/null) == "install ok installed" ]] || missing+=("$package")
	done
	((${#missing[@]})) || return 0
	say "installing ${missing[*]}"
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 \
		-o DPkg::Lock::Timeout=600 "${missing[@]}" >&2
}

# shellcheck disable=SC2120 # run calls it without arguments
install() {
	local suite suites=("$@")
	((${#suites[@]})) || suites=(bookworm trixie)
	((UID == 0)) || die "it needs root: a Debian and its network are made"
	[[ -x $programs/kubelet ]] || die "$programs has no kubelet: run hack/nodes/nodes.sh install"
	[[ -x $agent ]] || die "there is no $agent: run make bin/node-agent"
	mkdir -p "$root"
	chmod 700 "$root"
	exec 8>"$root/lock"
	flock 8 # one at a time
	install_packages
	[[ -e $root/key ]] || ssh-keygen -q -t ed25519 -N '' -f "$root/key"
	for suite in "${suites[@]}"; do make_disk "$suite"; done
	exec 8>&-
}

# make_disk SUITE makes the folder and the disk of a release, unless they exist and were made by the
# same scripts from the same programs.
make_disk() {
	local dir=$root/$1 want started=$SECONDS
	want=$(sha256sum "$here/root.sh")
	if [[ ! -e $dir/root.key || $(<"$dir/root.key") != "$want" ]]; then
		say "making a Debian ($1)"
		rm -rf "$dir"
		"$here/root.sh" "$dir/root" "$1"
		printf '%s\n' "$want" >"$dir/root.key"
		say "made it in $((SECONDS - started)) s"
	fi
	want=$(sha256sum "$here/disk.sh" "$here"/files/* "$programs"/{criu,runc,runc-supercargo,containerd,containerd-shim-runc-v2,ctr,kubelet,bridge,host-local,loopback} "$agent" "$root/key.pub" "$dir/root.key")
	[[ ! -e $dir/disk.key || $(<"$dir/disk.key") != "$want" || ! -e $dir/disk.img ]] || return 0
	started=$SECONDS
	"$here/disk.sh" "$dir/root" "$programs" "$agent" "$root/key" "$dir/disk.img"
	printf '%s\n' "$want" >"$dir/disk.key"
	say "made the disk of $1 in $((SECONDS - started)) s"
}

# machines prints the process IDs of running QEMU processes. Their command lines contain a path in
# the directory, which distinguishes them from processes that reuse an ID.
machines() {
	local file process
	for file in "$root"/run/*/pid; do
		{ process=$(<"$file"); } 2>/dev/null || continue
		[[ -n $process ]] && grep -qaF "$root/run/" "/proc/$process/cmdline" 2>/dev/null && echo "$process"
	done
	return 0
}

links() {
	local link
	for link in "/sys/class/net/$bridge" "/sys/class/net/$bridge"-*; do
		[[ ! -e $link ]] || echo "${link##*/}"
	done
}

# sweep kills leftover machines and removes their network.
sweep() {
	local process link
	for process in $(machines); do kill -KILL "$process" 2>/dev/null || true; done
	for link in $(links); do ip link delete "$link" 2>/dev/null || true; done # a tap device may already be gone with its machine
}

# end stops the command and removes its machines.
command=
end() {
	if [[ -n $command ]]; then
		kill -TERM "$command" 2>/dev/null || true
		wait "$command" || true
		command=
	fi
	sweep
}

check() {
	local found
	found=$(machines | sed 's/^/process /' && links | sed 's/^/link /')
	[[ -n $found ]] || return 0
	printf 'left of virtual machines:\n%s\n' "$found"
	return 1
}

run() {
	local code=0
	# shellcheck disable=SC2119
	install
	exec 7>"$root/run.lock"
	flock -n 7 || die "another process runs machines in $root"
	trap end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	sweep
	ip link add "$bridge" type bridge
	ip addr add "$VMS_NET.1/24" dev "$bridge"
	ip link set "$bridge" up
	# In the background, because bash handles signals only after its foreground command has ended.
	"$@" 7>&- </dev/null &
	command=$!
	wait "$command" || code=$?
	end
	check || code=1
	return "$code"
}

remove() {
	[[ -z $(machines) ]] || die "machines run"
	rm -rf "$root"
}

verb=${1-}
shift || true
case $verb in
install | run | check | remove) "$verb" "$@" ;;
*) sed -n '2,/^set/{/^#/s/^# \?//p}' "${BASH_SOURCE[0]}" && exit 2 ;;
esac
