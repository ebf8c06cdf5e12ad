#!/usr/bin/env bash
# Makes the root folder of a Debian release for virtual machines: systemd, ssh, a kernel, and the
# packages that nodes and CRIU need.
#
#   root.sh FOLDER SUITE     SUITE is bookworm (Debian 12) or trixie (13)
#
# The kernel and initramfs are FOLDER/boot/vmlinuz-* and FOLDER/boot/initrd.img-*. Needs root,
# mmdebstrap and a Debian mirror.
set -euo pipefail

(($# == 2)) || { sed -n '2,/^set/{/^#/s/^# \?//p}' "${BASH_SOURCE[0]}" && exit 2; }
dir=$1 suite=$2

packages=systemd,systemd-sysv,dbus,udev,kmod,iproute2,iptables,nftables,openssh-server,ca-certificates,procps
packages+=,linux-image-cloud-amd64,initramfs-tools,zstd,conntrack,ethtool,apparmor,util-linux,e2fsprogs
packages+=,libprotobuf-c1,libnl-3-200,libcap2,libseccomp2
case $suite in
bookworm) packages+=,libnet1 ;;
trixie) packages+=,linux-sysctl-defaults ;;
*) echo "root.sh: no suite $suite: want bookworm or trixie" >&2 && exit 2 ;;
esac

mkdir -p "$(dirname "$dir")"

# The initramfs is needed because the cloud kernel's driver of the virtio root disk is a module.
# lz4 unpacks fastest in an emulated machine.
# shellcheck disable=SC2016 # mmdebstrap's $1
mmdebstrap --quiet --variant=minbase --mode=root --include="$packages" \
	--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"; echo COMPRESS=lz4 >"$1/etc/initramfs-tools/conf.d/compress"' \
	"$suite" "$dir"
