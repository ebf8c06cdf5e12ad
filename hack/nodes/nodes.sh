#!/usr/bin/env bash
# Runs real nodes on this machine, for tests: kubelets with containerd, runc and CRIU,
# each in its own namespaces. The control plane runs in the test's process.
#
#   nodes.sh install           build what is missing, into NODES_DIR/bin
#   nodes.sh install-kubeadm   build what kubeadm installs too: a control plane, kube-proxy, CoreDNS
#   nodes.sh install-suite     build Kubernetes' tests of the scheduler too, and the image they need
#   nodes.sh up [COUNT]        install, start a control plane with COUNT nodes (default: 2)
#   nodes.sh down              stop it
#   nodes.sh run COMMAND...    install, run COMMAND, and stop in any case
#   nodes.sh run-kubeadm COMMAND...  the same, with what kubeadm installs
#   nodes.sh run-suite COMMAND...    the same, with Kubernetes' tests of the scheduler
#   nodes.sh check             list what is left of nodes whose processes have ended
#   nodes.sh remove            stop, and remove the directory
#
# Each command can be repeated. Needs root and Debian. Built programs stay in one directory,
# so that later runs take seconds.
#
# Environment:
#   NODES_DIR         the directory (default: /var/tmp/supercargo-nodes)
#   NODES_CONTAINERD  the nodes run this older containerd, of runtime/containerd-$NODES_CONTAINERD (default: runtime/containerd)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$here/$(basename "${BASH_SOURCE[0]}")
project=$(cd "$here/../.." && pwd)
root=${NODES_DIR:-/var/tmp/supercargo-nodes}
bin=$root/bin
containerd=containerd${NODES_CONTAINERD:+-$NODES_CONTAINERD}
sweeper=$project/test/e2e/nodes/cluster/sweep.sh
export NODES_DIR=$root
# shellcheck source=versions
source "$here/versions"

say() { printf '%s nodes: %s\n' "$(date +%T)" "$*" >&2; }
die() {
	say "$*"
	exit 1
}

# ---- install

install() {
	local started=$SECONDS
	((UID == 0)) || die "root is required to create namespaces and control groups"
	mkdir -p "$bin" "$root/keys"
	chmod 700 "$root" # programs from here run as root
	exec 8>"$root/lock"
	flock 8 # only one build at a time
	install_packages
	build criu "$(printf '%s\n' "${criu_sources[@]}")" build_criu
	build runc "$(module runc)" build_runc
	build cni "$(module cni)" build_cni
	build "$containerd" "$(module "$containerd")" build_containerd
	build kubelet "$(cat "$project/go.mod" "$project/go.sum" "$here"/kubelet/*.go)" build_kubelet
	(build_own)
	exec 8>&-
	((SECONDS - started < 5)) || say "installed in $((SECONDS - started)) s"
}

install_kubeadm() {
	install
	exec 8>"$root/lock"
	flock 8
	build kubernetes "$(module kubernetes)" build_kubernetes
	build coredns "$(module coredns)$(<"$here/runtime/coredns/main.go")" build_coredns
	build etcd "$(cat "$project/tools/go.mod" "$project/tools/go.sum")" build_etcd
	exec 8>&-
}

install_suite() {
	install_kubeadm
	exec 8>"$root/lock"
	flock 8
	build e2e "$(module e2e)$(<"$here/runtime/e2e/e2e_test.go")" build_e2e
	exec 8>&-
}

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

# module NAME: prints the files that determine the build of its programs.
module() { cat "$here/runtime/$1/go.mod" "$here/runtime/$1/go.sum"; }

# version NAME MODULE: prints the version of MODULE in the go.mod of NAME.
version() { awk -v module="$2" '{ sub(/^require /, "") } $1 == module { print $2 }' "$here/runtime/$1/go.mod"; }

# build NAME CONTENT FUNCTION: runs FUNCTION unless it has already run for the same CONTENT, Go version and
# script.
build() {
	local name=$1 key=$root/keys/$1 want started=$SECONDS
	want=$({ printf '%s\n' "$2" && go version && declare -f "$3"; } | sha256sum)
	[[ ! -e $key || $(<"$key") != "$want" ]] || return 0
	say "building $name"
	"$3"
	printf '%s\n' "$want" >"$key"
	say "built $name in $((SECONDS - started)) s"
}

go_build() { # MODULE FLAG...: builds its tools into bin/
	build_tools "$1" "$bin" "${@:2}"
}

build_tools() { # MODULE FOLDER FLAG...
	(cd "$here/runtime/$1" && go build -buildvcs=false "${@:3}" -o "$2/" tool)
}

build_runc() {
	CGO_ENABLED=1 go_build runc -tags seccomp \
		-ldflags "-s -w -X main.version=$(version runc github.com/opencontainers/runc)"
}

build_cni() { CGO_ENABLED=0 go_build cni -ldflags "-s -w"; }

build_containerd() {
	local module=github.com/containerd/containerd/v2 folder=$bin${NODES_CONTAINERD:+/$containerd}
	mkdir -p "$folder"
	CGO_ENABLED=0 build_tools "$containerd" "$folder" -tags "no_btrfs no_zfs no_devmapper" \
		-ldflags "-s -w -X $module/version.Version=$(version "$containerd" $module)"
}

# kubernetes_flags VERSION: makes programs of Kubernetes report that version.
kubernetes_flags() {
	local flags="-s -w" package minor=${1#*.}
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags+=" -X $package.gitVersion=$1 -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
	done
	echo "$flags"
}

build_kubelet() {
	local version
	version=$(cd "$project" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
	(cd "$project" && CGO_ENABLED=0 go build -buildvcs=false -ldflags "$(kubernetes_flags "$version")" -o "$bin/kubelet" ./hack/nodes/kubelet)
}

build_kubernetes() { CGO_ENABLED=0 go_build kubernetes -ldflags "$(kubernetes_flags "$(version kubernetes k8s.io/kubernetes)")"; }

build_e2e() {
	CGO_ENABLED=0 go_build e2e -ldflags "-s -w"
	(cd "$here/runtime/e2e" && CGO_ENABLED=0 go test -c -ldflags "$(kubernetes_flags "$(version e2e k8s.io/kubernetes)")" -o "$bin/e2e.test" .)
}

build_coredns() { (cd "$here/runtime/coredns" && CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w" -o "$bin/coredns" .); }

build_etcd() { (cd "$project/tools" && CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w" -o "$bin/etcd" go.etcd.io/etcd/server/v3); }

# The project's own programs are small, and the go command rebuilds only what is stale.
build_own() {
	mkdir -p "$bin/workload"
	cd "$project"
	CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w" -o "$bin/init" ./test/e2e/nodes/init
	CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w" -o "$bin/runc-supercargo" ./cmd/runc-supercargo
	CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w" -o "$bin/workload/" ./test/e2e/nodes/workload/...
}

# build_criu downloads the source with its own package lists, so that the machine's sources stay unchanged.
build_criu() (
	tmp=$(mktemp -d "$root/criu-XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	mkdir -p "$tmp"/{lists,cache,source}
	cat >"$tmp/apt.conf" <<-END
		Dir::Etc::sourcelist "$tmp/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::State::lists "$tmp/lists";
		Dir::Cache "$tmp/cache";
		APT::Sandbox::User "root";
	END
	for source in "${criu_sources[@]}"; do
		# shellcheck disable=SC2086 # three words
		fetch_criu "$tmp" $source || continue
		tar -xJf "$tmp"/criu_*.orig.tar.xz -C "$tmp/source" --strip-components 1
		make -C "$tmp/source" -j"$(nproc)" NO_GNUTLS=1 criu >"$tmp/log" 2>&1 || {
			tail -n 20 "$tmp/log" >&2
			die "build CRIU: see above"
		}
		command install -m 755 "$tmp/source/criu/criu" "$bin/criu"
		exit
	done
	die "fetch CRIU: Debian has none of the versions in hack/nodes/versions; add the one it has"
)

fetch_criu() { # FOLDER VERSION SUITE SHA256
	local mirror
	mirror=$(apt-get indextargets --format '$(CODENAME) $(ORIGIN) $(REPO_URI)' "Created-By: Packages" |
		awk '$2 == "Debian" && $1 !~ /-/ { print $3; exit }')
	[[ -n $mirror ]] || die "fetch CRIU: apt-get knows no Debian mirror; run apt-get update"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $3 main" >"$1/sources.list"
	(
		cd "$1"
		export APT_CONFIG=$1/apt.conf
		apt-get update -qq && release=$(apt-cache showsrc criu | awk -v v="$2" '$1 == "Version:" && index($2, v "-") == 1 { print $2; exit }') &&
			[[ -n $release ]] && apt-get source -qq --download-only --tar-only "criu=$release" >/dev/null
	) || return 1
	printf '%s %s\n' "$4" "$1/criu_$2.orig.tar.xz" | sha256sum --check --quiet
}

# ---- up, down, run

# A process is identified by its PID and its start time in ticks since boot, because PIDs are reused.
born() { # PROCESS
	local stat
	{ stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
	stat=${stat##*) } # the name before may contain any character
	# shellcheck disable=SC2086 # words
	set -- $stat
	[[ $1 != Z ]] && echo "${20}"
}

up() {
	local log=$root/up.log ready=$root/ready
	install
	down
	(cd "$project" && CGO_ENABLED=0 go build -buildvcs=false -o "$bin/up" ./test/e2e/nodes/up)
	rm -f "$ready"
	setsid "$bin/up" -nodes "${1:-2}" -ready "$ready" >"$log" 2>&1 </dev/null &
	echo "$! $(born $!)" >"$root/up.pid"
	until [[ -e $ready ]]; do
		kill -0 $! 2>/dev/null || { tail -n 20 "$log" >&2 && die "the nodes did not start: see above"; }
		sleep 0.2
	done
	cat "$ready"
}

down() {
	local process started until=$((SECONDS + 60))
	if read -r process started 2>/dev/null <"$root/up.pid" && [[ -n $started && $(born "$process") == "$started" ]]; then
		kill -TERM "$process"
		while kill -0 "$process" 2>/dev/null; do
			((SECONDS < until)) || kill -KILL "$process" 2>/dev/null || true
			sleep 0.1
		done
	fi
	rm -f "$root/up.pid" "$root/ready"
	[[ ! -x $sweeper ]] || "$sweeper" stale
}

check() { "$sweeper" check; }

run() { run_after install "$@"; }

run_kubeadm() { run_after install-kubeadm "$@"; }

run_suite() { run_after install-suite "$@"; }

# run_after VERB COMMAND...: runs a command after VERB has built what it needs. It fails if anything of the
# command's nodes is left.
run_after() {
	local code=0 verb=$1
	shift
	trap 'exit 130' INT
	trap 'exit 143' TERM
	guarded "$BASH" "$self" "$verb"
	"$sweeper" stale
	guarded "$@" || code=$?
	"$sweeper" check || code=1
	return "$code"
}

# guarded runs a command in its own session. The guard ends the session when the command ends, and when this
# shell ends for any reason, because it holds the other end of a pipe.
guarded() {
	local code=0
	setsid "$@" </dev/null &
	local command=$!
	exec 9> >(exec setsid "$BASH" "$self" guard "$command" "$(born "$command" || true)")
	guard=$!
	trap 'exec 9>&-; wait "$guard"' EXIT
	wait "$command" || code=$?
	exec 9>&-
	wait "$guard" || true
	trap - EXIT
	return "$code"
}

guard() { # PROCESS BORN
	local until=$((SECONDS + 10))
	trap '' INT TERM HUP
	cat >/dev/null
	# The group may outlive its leader.
	if [[ $(born "$1" || echo "$2") == "$2" ]]; then
		kill -TERM -- "-$1" 2>/dev/null || true
		while kill -0 -- "-$1" 2>/dev/null; do
			((SECONDS < until)) || kill -KILL -- "-$1" 2>/dev/null || true
			sleep 0.1
		done
	fi
	"$sweeper" stale
}

remove() {
	down
	rm -rf "$root"
}

verb=${1-}
shift || true
case $verb in
install | install-kubeadm | install-suite | up | down | run | run-kubeadm | run-suite | guard | check | remove) "${verb//-/_}" "$@" ;;
*) sed -n '2,/^set/{/^#/s/^# \?//p}' "${BASH_SOURCE[0]}" && exit 2 ;;
esac
