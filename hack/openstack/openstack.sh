#!/usr/bin/env bash
# Runs a real OpenStack on this machine, for tests: Keystone, Placement, Glance,
# Neutron and Nova from Debian 12's packages, with Nova's fake hypervisor: the API,
# the scheduler and the quotas are real, and no guest ever runs.
#
#   openstack.sh install           install what is missing (apt-get)
#   openstack.sh start [SERVICE]   make what is missing, start it, wait for it
#   openstack.sh stop [SERVICE]    stop it; without a SERVICE, all
#   openstack.sh status            list which services run
#   openstack.sh run COMMAND...    install, start, run COMMAND, and stop in any case
#   openstack.sh remove            stop, and remove the directory
#
# Each command can be repeated. Needs root. All state is in one directory, all ports are
# on 127.0.0.1. What `run` starts ends with it, also if it is killed: a guard in its own
# session detects this and stops all services. There are three hosts, each in its own
# availability zone:
#
#   fake1  roomy   takes about a hundred machines of any size
#   fake2  small   2 vCPUs and 8 GiB: soon full
#   fake3  broken  every build fails
#
# Environment:
#   OPENSTACK_DIR    the directory (default: /var/tmp/openstack-UID; for `run` a new one
#                    in /var/tmp, which is removed if the command succeeds)
#   OPENSTACK_PORT   the first of eight ports (default: 25000; for `run` the first from
#                    there on without a listener)
#   OPENSTACK_CACHE  where new databases are kept for the next directory, which then takes
#                    seconds to start in place of minutes (default: /var/cache/supercargo-openstack;
#                    empty: nowhere)
#   OPENSTACK_NICE   how nice the services are (default: 10)
#   OPENSTACK_TOKEN_SECONDS  lifetime of tokens (default: 160; with 120 or less the
#                    services, which renew theirs two minutes early, log in all the time)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$here/$(basename "${BASH_SOURCE[0]}")
verb=${1-}
shift || true

die() { say "$*"; exit 1; }
say() { printf '%s openstack: %s\n' "$(date +%T)" "$*" >&2; }
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_ports() { # prints the first of eight consecutive ports without a listener
	local first at
	for ((first = 25000; first < 30000; first += 10)); do
		for ((at = first; at < first + 8; at++)); do
			! listens "$at" || continue 2
		done
		echo "$first"
		return
	done
	die "no eight ports are free between 25000 and 30000: set OPENSTACK_PORT"
}

# Values that `run` chooses are passed to the processes that it starts in the environment.
fresh=
if [[ $verb == run ]]; then
	[[ -n ${OPENSTACK_PORT-} ]] || OPENSTACK_PORT=$(free_ports)
	[[ -n ${OPENSTACK_DIR-} ]] || { OPENSTACK_DIR=$(mktemp -d /var/tmp/openstack.XXXXXX) && fresh=yes; }
fi
export OPENSTACK_DIR=${OPENSTACK_DIR:-/var/tmp/openstack-$UID} OPENSTACK_PORT=${OPENSTACK_PORT:-25000}
root=$OPENSTACK_DIR port=$OPENSTACK_PORT
niceness=${OPENSTACK_NICE:-10}
cache=${OPENSTACK_CACHE-/var/cache/supercargo-openstack}
token_seconds=${OPENSTACK_TOKEN_SECONDS:-160}
computes=(FakeDriver SmallFakeDriver FakeBuildAbortDriver)

ip=127.0.0.1
keystone=$port placement=$((port + 1)) glance=$((port + 2)) neutron=$((port + 3)) nova=$((port + 4))
rabbit=$((port + 5)) epmd=$((port + 6)) rabbit_nodes=$((port + 7))
etc=$root/etc run=$root/run log=$root/log data=$root/data share=$root/share
python=/usr/bin/python3 # Debian's packages need Debian's python

packages=(python3-keystone python3-placement python3-glance python3-nova python3-neutron
	uwsgi-core uwsgi-plugin-python3 rabbitmq-server mariadb-server-core mariadb-client-core curl ca-certificates)
# In start order. They are stopped in reverse order.
services=(mysql epmd rabbit keystone placement glance neutron nova-api nova-conductor nova-scheduler
	nova-compute-1 nova-compute-2 nova-compute-3)

caller_path=$PATH
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
caller_home=${HOME:-/root}
export HOME=$root PYTHONPATH=$root/python # for the driver that binds ports, see configure_neutron
unset PYTHONHOME VIRTUAL_ENV http_proxy https_proxy HTTP_PROXY HTTPS_PROXY || true
export SEED_IDENTITY=http://$ip:$keystone/v3 SEED_NOVA=http://$ip:$nova/v2.1 SEED_PLACEMENT=http://$ip:$placement
export SEED_GLANCE=http://$ip:$glance SEED_NEUTRON=http://$ip:$neutron SEED_PASSWORD=secret

# ---- install

# apt is apt-get with its own lists and archive, which a concurrent apt-get does not lock or clean.
apt() {
	mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial"
	HOME="$caller_home" DEBIAN_FRONTEND=noninteractive apt-get -qq -o "Dir::State::lists=$root/apt/lists" -o "Dir::Cache=$root/apt" \
		-o APT::Sandbox::User=root "$@"
}

install() {
	((UID == 0)) || die "root is required to install packages and to run the services"
	local missing=() package
	for package in "${packages[@]}"; do
		[[ $(dpkg-query -Wf '${Status}' "$package" 2>/dev/null) == "install ok installed" ]] || missing+=("$package")
	done
	if ((${#missing[@]})); then
		say "installing ${#missing[@]} packages and their dependencies"
		apt update
		(
			# No package may start a daemon: the daemons here have their own configurations.
			policy=/usr/sbin/policy-rc.d
			if [[ ! -e $policy ]]; then
				trap 'rm -f "$policy"' EXIT
				printf '#!/bin/sh\nexit 101\n' >"$policy"
				chmod 755 "$policy"
			fi
			apt install -y --no-install-recommends -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 \
				-o Dpkg::Options::=--force-unsafe-io "${missing[@]}" >&2
		)
	fi
	# The API pipelines are in packages that would ask questions and set up databases.
	if [[ ! -e $share/usr/share/nova-common/api-paste.ini ]]; then
		local pipelines=(nova-common glance-common neutron-common)
		mkdir -p "$share"
		(
			cd "$share"
			# The package lists of the system suffice unless they are too old.
			apt-get -qq download "${pipelines[@]}" 2>/dev/null || { apt update && apt download "${pipelines[@]}"; }
			for package in ./*.deb; do dpkg-deb -x "$package" .; done
			rm -f ./*.deb
		)
	fi
	rm -rf "$root/apt"
}

# ---- configure

database() { printf 'mysql+pymysql://root@localhost/%s?unix_socket=%s/mysqld.sock&charset=utf8' "$1" "$run"; }

database_section() { # SECTION DATABASE
	printf '[%s]\nconnection = %s\nmax_retries = 3\nmax_pool_size = 5\nmax_overflow = 20\n' "$1" "$(database "$2")"
}

auth_section() { # SECTION USER
	cat <<-END
		[$1]
		auth_type = password
		auth_url = $SEED_IDENTITY
		www_authenticate_uri = $SEED_IDENTITY
		username = $2
		password = $SEED_PASSWORD
		project_name = service
		user_domain_id = default
		project_domain_id = default
		region_name = RegionOne
		valid_interfaces = internal,public
	END
}

messages_sections() {
	printf '[oslo_messaging_rabbit]\nheartbeat_timeout_threshold = 0\n[oslo_messaging_notifications]\ndriver = noop\n'
}

configure() {
	mkdir -p "$etc" "$run" "$log" "$root/python" "$data"/{glance,nova,neutron,fernet,credential,rabbit}
	chmod 700 "$root" "$data/fernet" "$data/credential"
	configure_keystone
	configure_placement
	configure_glance
	configure_neutron
	configure_nova
}

configure_keystone() {
	cat >"$etc/keystone.conf" <<-END
		[DEFAULT]
		log_file = $log/keystone.log
		$(database_section database keystone)
		[token]
		provider = fernet
		expiration = $token_seconds
		[fernet_tokens]
		key_repository = $data/fernet
		[credential]
		key_repository = $data/credential
		[identity]
		password_hash_rounds = 4
		[cache]
		enabled = true
		backend = oslo_cache.dict
		[oslo_messaging_notifications]
		driver = noop
	END
}

configure_placement() {
	cat >"$etc/placement.conf" <<-END
		[DEFAULT]
		log_file = $log/placement.log
		$(database_section placement_database placement)
		[api]
		auth_strategy = keystone
		$(auth_section keystone_authtoken placement)
	END
}

configure_glance() {
	cat >"$etc/glance-api.conf" <<-END
		[DEFAULT]
		log_file = $log/glance.log
		bind_host = $ip
		bind_port = $glance
		workers = 0
		enabled_backends = fs:file
		enabled_import_methods = []
		$(database_section database glance)
		[glance_store]
		default_backend = fs
		[fs]
		filesystem_store_datadir = $data/glance
		[os_glance_staging_store]
		filesystem_store_datadir = $data/glance-staging
		[os_glance_tasks_store]
		filesystem_store_datadir = $data/glance-tasks
		[paste_deploy]
		flavor = keystone
		config_file = $share/usr/share/glance-common/glance-api-paste.ini
		$(auth_section keystone_authtoken glance)
		[oslo_messaging_notifications]
		driver = noop
	END
}

configure_neutron() {
	cat >"$etc/neutron.conf" <<-END
		[DEFAULT]
		log_file = $log/neutron.log
		bind_host = $ip
		bind_port = $neutron
		state_path = $data/neutron
		core_plugin = ml2
		service_plugins =
		api_workers = 2
		rpc_workers = 0
		rpc_state_report_workers = 0
		api_paste_config = $share/usr/share/neutron-common/api-paste.ini
		auth_strategy = keystone
		notify_nova_on_port_status_changes = false
		notify_nova_on_port_data_changes = false
		dhcp_agent_notification = false
		transport_url = rabbit://guest:guest@$ip:$rabbit/
		$(database_section database neutron)
		$(auth_section keystone_authtoken neutron)
		$(auth_section nova nova)
		[oslo_concurrency]
		lock_path = $run
		[ml2]
		type_drivers = local,flat
		tenant_network_types = local
		mechanism_drivers = bindany
		extension_drivers = port_security
		[ml2_type_flat]
		flat_networks = *
		$(messages_sections)
	END
	# There are no network agents: this driver binds any port on any host.
	mkdir -p "$root/python/bindany-1.0.dist-info"
	printf 'Metadata-Version: 2.1\nName: bindany\nVersion: 1.0\n' >"$root/python/bindany-1.0.dist-info/METADATA"
	printf '[neutron.ml2.mechanism_drivers]\nbindany = bindany:Driver\n' >"$root/python/bindany-1.0.dist-info/entry_points.txt"
	cp "$here/bindany.py" "$root/python/bindany.py"
}

configure_nova() {
	cat >"$etc/nova.conf" <<-END
		[DEFAULT]
		state_path = $data/nova
		enabled_apis = osapi_compute
		osapi_compute_listen = $ip
		osapi_compute_listen_port = $nova
		osapi_compute_workers = 2
		use_neutron = true
		transport_url = rabbit://guest:guest@$ip:$rabbit/
		default_schedule_zone = roomy
		reserved_host_memory_mb = 0
		initial_cpu_allocation_ratio = 1.0
		initial_ram_allocation_ratio = 1.0
		periodic_fuzzy_delay = 0
		service_down_time = 60
		vif_plugging_is_fatal = false
		vif_plugging_timeout = 0
		[wsgi]
		api_paste_config = $share/usr/share/nova-common/api-paste.ini
		[conductor]
		workers = 1
		[scheduler]
		workers = 1
		discover_hosts_in_cells_interval = 2
		[oslo_concurrency]
		lock_path = $run
		[vnc]
		enabled = false
		[cache]
		enabled = false
		$(auth_section keystone_authtoken nova)
		$(auth_section service_user nova)
		send_service_user_token = true
		$(auth_section placement placement)
		$(auth_section neutron neutron)
		service_metadata_proxy = false
		$(auth_section glance glance)
		$(messages_sections)
	END
	# nova-compute must not have these.
	{ database_section api_database nova_api && database_section database nova; } >"$etc/nova-db.conf"
	local i
	for i in 1 2 3; do
		printf '[DEFAULT]\nhost = fake%d\ncompute_driver = fake.%s\n' "$i" "${computes[i - 1]}" >"$etc/nova-compute-$i.conf"
	done
}

# ---- databases

sql() { mariadb --no-defaults -uroot -S "$run/mysqld.sock" -e "$1"; }

script() { # MODULE:FUNCTION ARGUMENT...: runs an entry point
	local module=${1%:*} function=${1#*:}
	shift
	"$python" -c "import sys; from $module import $function as f; sys.exit(f())" "$@"
}

make_keys() {
	local kind
	for kind in fernet credential; do
		keystone-manage --config-file "$etc/keystone.conf" "${kind}_setup" --keystone-user root --keystone-group root
	done
}

sync_keystone() {
	local conf=(--config-file "$etc/keystone.conf")
	make_keys
	keystone-manage "${conf[@]}" db_sync
	keystone-manage "${conf[@]}" bootstrap --bootstrap-password "$SEED_PASSWORD" --bootstrap-region-id RegionOne \
		--bootstrap-admin-url "$SEED_IDENTITY" --bootstrap-internal-url "$SEED_IDENTITY" --bootstrap-public-url "$SEED_IDENTITY"
}

sync_placement() { placement-manage --config-file "$etc/placement.conf" db sync; }

sync_glance() { script glance.cmd.manage:main --config-file "$etc/glance-api.conf" db_sync; }

sync_nova() {
	local manage=(script nova.cmd.manage:main --config-file "$etc/nova.conf" --config-file "$etc/nova-db.conf")
	"${manage[@]}" api_db sync
	"${manage[@]}" cell_v2 map_cell0 --database_connection "$(database nova_cell0)"
	"${manage[@]}" db sync
	"${manage[@]}" cell_v2 create_cell --name=cell1 --verbose || (($? == 2)) # 2: it exists already
}

sync_neutron() { script neutron.db.migration.cli:main --config-file "$etc/neutron.conf" upgrade heads; }

make_databases() {
	local name
	for name in keystone placement glance neutron nova nova_api nova_cell0; do
		sql "create database if not exists $name character set utf8"
	done
	[[ ! -e $data/.synced ]] || return 0
	if [[ -e $data/.restored ]]; then
		adapt_databases && touch "$data/.synced"
		return
	fi
	say "creating the tables"
	local pids=() failed=0 pid
	for name in keystone placement glance nova neutron; do
		(set -e; "sync_$name") >"$log/sync-$name.out" 2>&1 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
	((failed == 0)) || { tail -n 5 "$log"/sync-*.out >&2; die "failed to create the tables"; }
	keep_databases
	touch "$data/.synced"
}

# kept prints the file with the databases as the installed packages and this script make them.
kept() {
	[[ -n $cache ]] || return
	local versions
	versions=$(dpkg-query -Wf '${Package} ${Version}\n' 'python3-*' mariadb-server-core && cat "$self")
	echo "$cache/$(sha256sum <<<"$versions" | cut -c -16).tar.gz"
}

# keep_databases keeps the new databases for the next directory. Others are of other versions.
keep_databases() {
	local file
	file=$(kept) || return 0
	sql shutdown # unlike stop_one it waits until everything is written
	while alive mysql; do sleep 0.1; done
	mkdir -p -m 700 "$cache"
	rm -f "$cache"/*.tar.gz "$cache"/new.*
	tar -C "$data" -cf - mysql | gzip -1 >"$cache/new.$$" && mv "$cache/new.$$" "$file" || say "the databases could not be kept in $cache"
	start_mysql
}

restore_databases() {
	local file
	file=$(kept) && [[ -e $file ]] || return
	rm -rf "$data/mysql"
	tar -C "$data" -xzf "$file" && touch "$data/.restored" || { rm -rf "$data/mysql"; return 1; }
}

# adapt_databases changes what depends on the directory and the ports, and makes new keys.
adapt_databases() {
	local bus
	bus=$(sed -n 's/^transport_url = //p' "$etc/nova.conf")
	sql "update keystone.endpoint set url = '$SEED_IDENTITY';
		update nova_api.cell_mappings set database_connection = '$(database nova_cell0)' where name = 'cell0';
		update nova_api.cell_mappings set database_connection = '$(database nova)', transport_url = '$bus' where name = 'cell1'"
	make_keys >"$log/keys.out" 2>&1 || { tail -n 5 "$log/keys.out" >&2; die "failed to make Keystone's keys"; }
}

# ---- start and stop

# A file for each running service holds its PID and its start time in ticks since boot, because PIDs are
# reused.
born() { # PROCESS
	local stat
	{ stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
	stat=${stat##*) } # the name before may contain any character
	set -- $stat
	[[ $1 != Z ]] && echo "${20}"
}

leader() { # NAME: prints its PID if it is alive
	local process started
	read -r process started 2>/dev/null <"$run/$1.pid" && [[ -n $started && $(born "$process") == "$started" ]] && echo "$process"
}

alive() { leader "$1" >/dev/null; }

# launch NAME COMMAND...: starts it in its own session, without the pipe to the guard: see guard.
launch() {
	local name=$1
	shift
	setsid "$@" 9>&- &
	echo "$! $(born $!)" >"$run/$name.pid"
}

# daemon NAME COMMAND...: starts a service. The mark identifies processes that leave its session.
daemon() {
	local name=$1
	shift
	alive "$name" || OPENSTACK_MARK=$root launch "$name" nice -n "$niceness" "$@" >>"$log/$name.out" 2>&1 </dev/null
}

wait_for() { # NAME COMMAND...: waits until COMMAND succeeds
	local name=$1 until=$((SECONDS + 180))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < until)) && alive "$name" || {
			tail -n 20 "$log/$name.out" "$log/$name.log" >&2 2>/dev/null || true
			die "$name did not start"
		}
		sleep 0.2
	done
}

answers() { curl -s -o /dev/null -m 5 "http://$ip:$1/"; }

python_daemon() { # NAME MODULE ARGUMENT...
	local name=$1 module=$2
	shift 2
	daemon "$name" "$python" -c "from $module import main; main()" "$@"
}

wsgi_daemon() { # NAME PORT FILE VARIABLE=VALUE
	daemon "$1" env "$4" uwsgi_python3 --http-socket "$ip:$2" --wsgi-file "$3" --master --die-on-term --need-app \
		--processes 1 --threads 8 --enable-threads --buffer-size 65535 --lazy-apps --thunder-lock \
		--add-header "Connection: close" --disable-logging
}

start_mysql() {
	if [[ ! -d $data/mysql/mysql ]] && ! restore_databases; then
		mkdir -p "$data/mysql"
		mariadb-install-db --no-defaults --user=root --datadir="$data/mysql" --auth-root-authentication-method=normal \
			--skip-test-db >"$log/mysql.out" 2>&1
	fi
	daemon mysql mariadbd --no-defaults --user=root --datadir="$data/mysql" --socket="$run/mysqld.sock" --skip-networking \
		--pid-file="$run/mysqld" --max-connections=500 --innodb-flush-log-at-trx-commit=0 --skip-log-bin \
		--innodb-buffer-pool-size=64M --performance-schema=off
	wait_for mysql sql "select 1"
}

start_epmd() { daemon epmd epmd -port "$epmd" -address "$ip"; }

start_rabbit() {
	echo '[].' >"$etc/rabbit_plugins"
	: >"$etc/rabbit.conf"
	daemon rabbit env RABBITMQ_NODENAME=supercargo@localhost RABBITMQ_NODE_IP_ADDRESS="$ip" RABBITMQ_NODE_PORT="$rabbit" \
		RABBITMQ_DIST_PORT="$rabbit_nodes" RABBITMQ_MNESIA_BASE="$data/rabbit" RABBITMQ_LOG_BASE="$log" \
		RABBITMQ_ENABLED_PLUGINS_FILE="$etc/rabbit_plugins" RABBITMQ_CONFIG_FILE="$etc/rabbit" RABBITMQ_PID_FILE="$run/rabbit-node" \
		ERL_EPMD_ADDRESS="$ip" ERL_EPMD_PORT="$epmd" \
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}" \
		/usr/lib/rabbitmq/bin/rabbitmq-server
}

start_keystone() { wsgi_daemon keystone "$keystone" /usr/bin/keystone-wsgi-public OS_KEYSTONE_CONFIG_FILES="$etc/keystone.conf"; }
start_placement() { wsgi_daemon placement "$placement" /usr/bin/placement-api OS_PLACEMENT_CONFIG_DIR="$etc"; }
start_glance() { python_daemon glance glance.cmd.api --config-file "$etc/glance-api.conf"; }
start_neutron() { python_daemon neutron neutron.cmd.eventlet.server --config-file "$etc/neutron.conf"; }
nova_daemon() { # NAME MODULE CONFIG
	python_daemon "$1" "$2" --config-file "$etc/nova.conf" --config-file "$etc/$3" --log-file "$log/$1.log"
}
start_nova-api() { nova_daemon nova-api nova.cmd.api nova-db.conf; }
start_nova-conductor() { nova_daemon nova-conductor nova.cmd.conductor nova-db.conf; }
start_nova-scheduler() { nova_daemon nova-scheduler nova.cmd.scheduler nova-db.conf; }
start_nova-compute-1() { nova_daemon nova-compute-1 nova.cmd.compute nova-compute-1.conf; }
start_nova-compute-2() { nova_daemon nova-compute-2 nova.cmd.compute nova-compute-2.conf; }
start_nova-compute-3() { nova_daemon nova-compute-3 nova.cmd.compute nova-compute-3.conf; }

start() {
	if (($#)); then
		"start_$1"
		return
	fi
	local since=0 service
	alive nova-scheduler || since=$(date +%s)
	configure
	start_mysql
	start_epmd
	start_rabbit
	make_databases
	wait_for rabbit listens "$rabbit"
	for service in keystone placement glance neutron nova-api; do "start_$service"; done
	wait_for keystone answers "$keystone"
	"$python" "$here/seed.py" identity
	wait_for placement answers "$placement"
	# These services log in when they start, and exit if they cannot.
	for service in nova-conductor nova-scheduler nova-compute-{1,2,3}; do "start_$service"; done
	wait_for nova-api answers "$nova"
	wait_for glance answers "$glance"
	wait_for neutron answers "$neutron"
	"$python" "$here/seed.py" compute "$since" >&2
	say "up: $SEED_IDENTITY"
}

# stop_one NAME: ends its whole process group, with SIGKILL after four seconds.
stop_one() {
	local group until=$((SECONDS + 4))
	if group=$(leader "$1"); then
		kill -TERM -- "-$group" 2>/dev/null || true
		while kill -0 -- "-$group" 2>/dev/null; do
			((SECONDS < until)) || kill -KILL -- "-$group" 2>/dev/null || true
			sleep 0.1
		done
	fi
	rm -f "$run/$1.pid"
}

stop() {
	local i pids=()
	if (($#)); then
		stop_one "$1"
		return
	fi
	# Clients of the message bus and the database stop first.
	for ((i = ${#services[@]} - 1; i > 2; i--)); do
		stop_one "${services[i]}" &
		pids+=($!)
	done
	((${#pids[@]} == 0)) || wait "${pids[@]}"
	stop_one rabbit
	stop_one epmd
	stop_one mysql
	sweep
}

# sweep kills processes of the services that are still running.
sweep() {
	local file process
	for file in $(grep -lzxF "OPENSTACK_MARK=$root" /proc/[0-9]*/environ 2>/dev/null); do
		process=${file#/proc/}
		kill -KILL "${process%/environ}" 2>/dev/null || true
	done
}

status() {
	local service code=0
	for service in "${services[@]}"; do
		if alive "$service"; then echo "$service up"; else echo "$service down" && code=1; fi
	done
	return "$code"
}

# run runs a command with the services up. They are stopped when the command ends, and when this shell ends
# for any reason.
run() {
	mkdir -p "$run"
	rm -f "$run/succeeded"
	exec 9> >(OPENSTACK_FRESH=$fresh exec setsid "$BASH" "$self" guard)
	guard=$!
	trap 'exec 9>&-; wait "$guard"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	install 9>&-
	stop 9>&- # leftovers of an earlier run
	launch start "$self" start
	wait $!
	export OPENSTACK_SCRIPT=$self OPENSTACK_IDENTITY=$SEED_IDENTITY
	launch command env -u PYTHONPATH HOME="$caller_home" PATH="$caller_path" "$@"
	local code=0
	wait $! || code=$?
	if ((code)); then
		say "the logs are in $log"
	else
		touch "$run/succeeded"
	fi
	return "$code"
}

# guard waits until no process holds the other end of the pipe, and stops all services. It removes a directory
# that was made for one run, but keeps the logs if that run failed.
guard() {
	trap '' INT TERM HUP
	cat >/dev/null
	stop_one command &
	stop_one start &
	wait
	stop
	case ${OPENSTACK_FRESH-},$([[ -e $run/succeeded ]] && echo succeeded) in
	yes,succeeded) rm -rf "$root" ;;
	yes,) rm -rf "$data" "$share" "$run" "$etc" "$root/python" ;;
	esac
}

case $verb in
install | start | stop | status | run | guard) "$verb" "$@" ;;
remove) stop && rm -rf "$root" ;;
*) sed -n '2,/^set/{/^#/s/^# \?//p}' "${BASH_SOURCE[0]}" && exit 2 ;;
esac
