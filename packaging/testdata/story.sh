#!/bin/bash
# The life of the package on a machine, from installation to purge: story.sh MANAGER. It runs as root on a machine made for
# it (machine.sh), which has /out/old.deb, /out/new.deb, /out/site.yaml and /out/load. The first thing that is not as it
# should be ends it; the last line of /out/log says which. /out/done says that it was told to its end.
set -eEuo pipefail
manager="$1"
control=/var/lib/steerpoint/control
export STEER_DATA=$control NO_COLOR=1

say() { printf '\n== %s\n' "$*"; }
wrong() {
	printf '\nWRONG: %s\n' "$*"
	[ "$manager" != systemd ] || journalctl --no-pager -n 200 -u steer-control -u steer-node || true
	tail -n 100 /var/log/steerpoint/*.log 2>/dev/null || true
	exit 1
}
trap 'wrong "line $LINENO: $BASH_COMMAND"' ERR

# not COMMAND... is wrong when it succeeds. The shell's own ! would be no check: set -e does not see it.
not() {
	if "$@" >/dev/null 2>&1; then
		wrong "succeeds, and should not: $*"
	fi
}

# eventually COMMAND... repeats it for a minute: real processes have no other way to say that they got somewhere.
eventually() {
	for _ in $(seq 300); do
		if "$@" >/dev/null 2>&1; then
			return 0
		fi
		sleep 0.2
	done
	"$@" || true
	wrong "not within a minute: $*"
}

package() { dpkg --no-triggers "$@"; }
pid_of() {
	if [ "$manager" = systemd ]; then
		systemctl show -p MainPID --value "steer-$1"
	else
		cat "/run/steerpoint/$1.pid"
	fi
}
start() {
	if [ "$manager" = systemd ]; then
		systemctl enable --now "steer-$1"
	else
		service "steer-$1" start
	fi
}
nothing_runs() { not pgrep -x steer; }
# runs_installed PID: the process runs the program now on disk.
runs_installed() { [ "/proc/$1/exe" -ef /usr/bin/steer ]; }
answers() { /out/load once; }
has_status() { # PID FIELD VALUE
	grep -qE "^$2:[[:space:]]+$3([[:space:]]|\$)" "/proc/$1/status" || wrong "process $1 has not $2 $3: $(grep "^$2" "/proc/$1/status")"
}
# files lists what there is where packages and services put things, and the users. Of the big folders the top is enough.
files() {
	{
		find /etc /home /opt /srv /usr/bin /usr/sbin /usr/lib/systemd
		find /var -path /var/cache -prune -o -path /var/lib/dpkg -prune -o -path /var/lib/systemd -prune -o -path /var/log/journal -prune -o -print
		find /usr /usr/lib /usr/share -maxdepth 2
		find /usr/share/man /usr/share/bash-completion /usr/share/zsh /usr/share/fish || true # a shell that is not here
	} 2>/dev/null | sort -u | grep -v -e '^/var/log/' -e '^/etc/[a-z]*-$' -e '^/etc/[.]pwd.lock$' | xargs -d '\n' stat -c '%A %U:%G %n'
	getent passwd
	getent group
}

say "install: files and a user, nothing runs, nothing is enabled"
files >/tmp/before
package -i /out/old.deb
nothing_runs
id steer
[ "$(stat -c '%a %U %G' /etc/steerpoint)" = "750 root steer" ]
[ "$(stat -c '%a %U %G' $control /var/lib/steerpoint/node | sort -u)" = "700 steer steer" ]
[ ! -e /etc/systemd/system/multi-user.target.wants/steer-node.service ]
not compgen -G "/etc/rc[2-5].d/S*steer*"
dpkg --verify steerpoint
gzip -t /usr/share/man/man1/steer.1.gz
zcat /usr/share/man/man1/steer.1.gz >/tmp/steer.1
grep -q '^.TH STEER 1' /tmp/steer.1 # not in a pipe: grep leaves at once, and zcat fails of that
bash -c '. /usr/share/bash-completion/completions/steer && complete -p steer'

say "control: starts as its own user with one right, and takes resources"
start control
eventually steer status
has_status "$(pid_of control)" Uid "$(id -u steer)"
has_status "$(pid_of control)" Gid "$(id -g steer)"
for field in CapPrm CapEff CapBnd CapAmb; do
	has_status "$(pid_of control)" $field 0000000000000400 # CAP_NET_BIND_SERVICE
done
has_status "$(pid_of control)" NoNewPrivs 1
[ "$manager" != systemd ] || has_status "$(pid_of control)" Seccomp 2
steer apply -f /out/site.yaml

say "node: joins with a token, answers on port 53"
steer token create --role dns,probe >/etc/steerpoint/join.token
chown root:steer /etc/steerpoint/join.token
chmod 0640 /etc/steerpoint/join.token
cat >/etc/steerpoint/node.env <<-END
	STEER_NODE_OPTIONS="--roles dns,probe --join https://127.0.0.1:7072 --token /etc/steerpoint/join.token --name first --listen dns=:53"
END
start node
eventually answers
rm /etc/steerpoint/join.token
steer node list

say "upgrade with answers going on: the same processes run the new program, and no query is lost"
node=$(pid_of node) head=$(pid_of control)
/out/load start &
load=$!
eventually test -e /tmp/loaded
package -i /out/new.deb
eventually runs_installed "$node"
eventually runs_installed "$head"
eventually steer status
sleep 1 # of load on the new program
kill -TERM $load
wait $load || wrong "the load says that queries were lost"
[ "$(pid_of node) $(pid_of control)" = "$node $head" ]
grep -q -- '--name first' /etc/steerpoint/node.env
[ "$(dpkg-query -W -f '${Version}' steerpoint)" = 0.0.2 ]

say "a program that does not run is refused, and the old one goes on"
cp /usr/bin/steer /tmp/steer
printf '#!/bin/sh\nexit 1\n' >/usr/bin/steer.broken
chmod 755 /usr/bin/steer.broken
mv /usr/bin/steer.broken /usr/bin/steer
refused() {
	if [ "$manager" = systemd ]; then
		journalctl --no-pager -u steer-node | grep UPGRADE_REFUSED
	else
		grep UPGRADE_REFUSED /var/log/steerpoint/node.log
	fi
}
service steer-node reload
eventually refused
answers
[ "$(pid_of node)" = "$node" ]
install -m 0755 /tmp/steer /usr/bin/steer.again
mv /usr/bin/steer.again /usr/bin/steer

say "where a policy forbids it, nothing is touched"
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
package -i /out/old.deb
[ "$(pid_of node)" = "$node" ]
not runs_installed "$node"
answers
rm /usr/sbin/policy-rc.d
service steer-node reload
eventually runs_installed "$node"
eventually answers

say "control is killed: it is started again where there is who does, and the node answers meanwhile"
kill -KILL "$(pid_of control)"
answers
if [ "$manager" = systemd ]; then
	eventually steer status
	[ "$(pid_of control)" != "$head" ]
fi

say "remove: nothing runs, settings and data stay"
package -r steerpoint
nothing_runs
[ ! -e /usr/bin/steer ]
[ -e $control/ca/ca.key ]
[ -e /etc/steerpoint/node.env ]
[ ! -e /etc/systemd/system/multi-user.target.wants/steer-node.service ]

say "back again: the node is still the node"
package -i /out/new.deb
grep -q -- '--name first' /etc/steerpoint/node.env
start control
start node
eventually answers
steer node list | grep '^first'

say "purge: nothing is left"
package -P steerpoint
nothing_runs
not id steer
files >/tmp/after
diff /tmp/before /tmp/after || wrong "this is left, or gone"

say "installed where nothing may run, as in the making of an image: nothing does"
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
package -i /out/new.deb
package -i /out/old.deb
nothing_runs
package -P steerpoint
rm /usr/sbin/policy-rc.d
trap - ERR
touch /out/done
