#!/usr/bin/env bash
# Makes the disk that virtual machines boot from, from a folder that root.sh has made.
#
#   disk.sh FOLDER PROGRAMS AGENT KEY DISK
#
# PROGRAMS is the folder of the programs that nodes.sh builds, AGENT the node agent, and KEY.pub
# the ssh key that may log in as root. DISK is a raw ext4 file system without partitions, which
# can be made without a loop device. Needs root.
set -euo pipefail

(($# == 5)) || { sed -n '2,/^set/{/^#/s/^# \?//p}' "${BASH_SOURCE[0]}" && exit 2; }
root=$1 programs=$2 agent=$3 key=$4 disk=$5
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

install -d -m 700 "$root/root/.ssh"
install -m 600 "$key.pub" "$root/root/.ssh/authorized_keys"

install -m 755 "$programs"/{criu,runc,runc-supercargo,containerd,containerd-shim-runc-v2,ctr,kubelet} "$agent" "$root/usr/local/bin/"
install -d "$root/opt/cni/bin"
install -m 755 "$programs"/{bridge,host-local,loopback} "$root/opt/cni/bin/"
# CRIU is linked against the libraries of the host, which another release may lack.
for lib in $(ldd "$programs/criu" | awk '$3 ~ /^\// { print $3 }'); do
	[[ -e $root$lib || -e $root/usr$lib ]] || install -m 755 "$(readlink -f "$lib")" "$root/usr/local/lib/$(basename "$lib")"
done
chroot "$root" ldconfig

install -d "$root"/etc/{kubernetes,containerd,criu,cni/net.d}
install -m 644 "$here/files/containerd.toml" "$root/etc/containerd/config.toml"
install -m 644 "$here/files/runc.conf" "$root/etc/criu/runc.conf"
install -m 644 "$here/files/kubelet.yaml" "$root/etc/kubernetes/"
install -m 644 "$here"/files/*.service "$root/etc/systemd/system/"
: >"$root/etc/kubernetes/resolv.conf" # no name servers: no packet leaves the host

# CRIU lists sockets with kernel modules that are not loaded automatically.
printf '%s\n' overlay br_netfilter veth unix_diag inet_diag tcp_diag udp_diag netlink_diag af_packet_diag nfnetlink \
	>"$root/etc/modules-load.d/node.conf"
printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n' >"$root/etc/sysctl.d/90-node.conf"
echo '/dev/vda / ext4 defaults,noatime 0 1' >"$root/etc/fstab"
: >"$root/etc/machine-id" # written at the first boot

# systemd-network-generator reads the address from the kernel command line.
systemctl --root="$root" enable -q systemd-networkd systemd-network-generator ssh containerd kubelet node-agent
systemctl --root="$root" mask -q apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer systemd-networkd-wait-online.service

rm -f "$disk" "$disk.new"
truncate -s 8G "$disk.new"
mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$disk.new"
mv "$disk.new" "$disk"
