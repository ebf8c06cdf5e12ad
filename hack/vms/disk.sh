#!/usr/bin/env bash
# Makes the disk that virtual machines boot from, of a folder that root.sh has made.
#
#   disk.sh FOLDER PROGRAMS AGENT KEY DISK
#
# PROGRAMS is the folder in which nodes.sh puts what it builds, AGENT the node agent, and
# KEY.pub the ssh key that root has. DISK is a raw ext4 file system without partitions: it
# takes no loop device to make. Needs root.
set -euo pipefail

(($# == 5)) || { sed -n '2,/^set/{/^#/s/^# \?//p}' "${BASH_SOURCE[0]}" && exit 2; }
root=$1 programs=$2 agent=$3 key=$4 disk=$5
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

install -d -m 700 "$root/root/.ssh"
install -m 600 "$key.pub" "$root/root/.ssh/authorized_keys"

install -m 755 "$programs"/{criu,runc,containerd,containerd-shim-runc-v2,ctr,kubelet} "$agent" "$root/usr/local/bin/"
install -d "$root/opt/cni/bin"
install -m 755 "$programs"/{bridge,host-local,loopback} "$root/opt/cni/bin/"
# CRIU was linked on this machine, and the other release may lack one of its libraries.
for lib in $(ldd "$programs/criu" | awk '$3 ~ /^\// { print $3 }'); do
	[[ -e $root$lib || -e $root/usr$lib ]] || install -m 755 "$(readlink -f "$lib")" "$root/usr/local/lib/$(basename "$lib")"
done
chroot "$root" ldconfig

install -d "$root"/etc/{kubernetes,containerd,criu,cni/net.d}
install -m 644 "$here/files/containerd.toml" "$root/etc/containerd/config.toml"
install -m 644 "$here/files/runc.conf" "$root/etc/criu/runc.conf"
install -m 644 "$here/files/kubelet.yaml" "$root/etc/kubernetes/"
install -m 644 "$here"/files/*.service "$root/etc/systemd/system/"
: >"$root/etc/kubernetes/resolv.conf" # nothing to resolve: no packet leaves the machine

# CRIU asks for sockets through modules that the kernel does not load by itself.
printf '%s\n' overlay br_netfilter veth unix_diag inet_diag tcp_diag udp_diag netlink_diag af_packet_diag nfnetlink \
	>"$root/etc/modules-load.d/node.conf"
printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n' >"$root/etc/sysctl.d/90-node.conf"
echo '/dev/vda / ext4 defaults,noatime 0 1' >"$root/etc/fstab"
: >"$root/etc/machine-id" # made at the first boot

# The address comes from the kernel's command line, by systemd-network-generator.
systemctl --root="$root" enable -q systemd-networkd systemd-network-generator ssh containerd kubelet node-agent
systemctl --root="$root" mask -q apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer systemd-networkd-wait-online.service

rm -f "$disk" "$disk.new"
truncate -s 8G "$disk.new"
mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$disk.new"
mv "$disk.new" "$disk"
