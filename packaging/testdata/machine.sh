#!/bin/bash
# A machine of its own for one story: machine.sh MANAGER FOLDER. Its files are those of this machine, and what it writes is in
# memory and gone at its end; its processes, network, host name and cgroups are its own. FOLDER is its /out and has
# story.sh. MANAGER is systemd, which is then process 1, or initscripts. Exit code 77 says that this machine cannot do it.
set -euo pipefail
manager="$1" out="$2"

cannot() {
	echo "$*" >"$out/cannot"
	exit 77
}

case "${3:-}" in
"")
	unshare --mount --net --pid --ipc --uts --fork true 2>/dev/null || cannot "no namespaces can be made"
	# A cgroup of its own, so that a service manager finds an empty tree.
	if [ "$manager" = systemd ]; then
		[ -x /lib/systemd/systemd ] || cannot "systemd is not installed"
		cgroups="$(mktemp -d)"
		mount -t cgroup2 none "$cgroups" 2>/dev/null || cannot "there is no cgroup2"
		own="$cgroups/steerpoint-$$"
		mkdir "$own" || cannot "no cgroup can be made"
		end() {
			# What ran in it has ended with its process 1; the kernel takes a moment to see that they are empty.
			for _ in 1 2 3 4 5; do
				find "$own" -depth -type d -exec rmdir {} + 2>/dev/null && break
				sleep 1
			done
			umount "$cgroups" && rmdir "$cgroups"
		}
		trap end EXIT
		(
			echo "$BASHPID" >"$own/cgroup.procs" || cannot "no process can be put into a cgroup"
			exec unshare --cgroup --mount --net --pid --ipc --uts --fork --kill-child "$0" "$manager" "$out" inside
		)
		exit
	fi
	exec unshare --mount --net --pid --ipc --uts --fork --kill-child "$0" "$manager" "$out" inside
	;;
esac

memory="$(mktemp -d)"
mount -t tmpfs -o mode=0755 none "$memory" || cannot "nothing can be mounted"
mkdir "$memory/upper" "$memory/work" "$memory/root"
root="$memory/root"
mount -t overlay -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/work" none "$root" || cannot "there is no overlayfs"
mount -t proc none "$root/proc"
mount -t sysfs -o ro none "$root/sys" || mount --bind /sys "$root/sys"
for folder in run tmp dev; do
	mount -t tmpfs -o mode=0755 none "$root/$folder"
done
chmod 1777 "$root/tmp"
while read -r name major minor; do
	mknod -m 0666 "$root/dev/$name" c "$major" "$minor"
done <<-END
	null 1 3
	zero 1 5
	full 1 7
	random 1 8
	urandom 1 9
	tty 5 0
END
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 none "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs none "$root/dev/shm"
mkdir -p "$root/out" "$root/old"
mount --bind "$out" "$root/out"
ip link set lo up
hostname machine
# Images for builds forbid services; this is a machine.
rm -f "$root/usr/sbin/policy-rc.d"
# Nothing of this machine's own services.
rm -rf "$root"/etc/systemd/system/*.wants "$root"/etc/rc[S0-6].d/[SK]*

if [ "$manager" = systemd ]; then
	mount -t cgroup2 none "$root/sys/fs/cgroup"
	ln -s /dev/null "$root/etc/systemd/system/systemd-networkd-wait-online.service"
	cat >"$root/etc/systemd/system/story.service" <<-END
		[Service]
		Type=oneshot
		ExecStart=/bin/bash /out/story.sh systemd
		StandardOutput=append:/out/log
		StandardError=append:/out/log
		ExecStopPost=/bin/systemctl poweroff -f -f
	END
	cat >"$root/etc/systemd/system/story.target" <<-END
		[Unit]
		Wants=story.service
		Requires=basic.target
		After=basic.target
	END
fi
cd "$root"
pivot_root . old
mount --make-rshared /
umount -l /old
rmdir /old
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/nonexistent DEBIAN_FRONTEND=noninteractive container=other
if [ "$manager" = systemd ]; then
	exec env -i PATH="$PATH" container=other /lib/systemd/systemd --unit=story.target --log-target=journal --show-status=false
fi
exec env -i PATH="$PATH" LANG="$LANG" DEBIAN_FRONTEND=noninteractive /bin/bash /out/story.sh initscripts >>/out/log 2>&1
