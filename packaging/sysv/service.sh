# What the init scripts of both roles do, as the systemd units do it: user steer, port 53 and nothing else that root can,
# data in /var/lib/steerpoint/ROLE. Sourced with NAME, ROLE and OPTIONS (the name of the variable in ROLE.env) set.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
DAEMON=/usr/bin/steer
PIDFILE=/run/steerpoint/$ROLE.pid
DATA=/var/lib/steerpoint/$ROLE
LOG=/var/log/steerpoint/$ROLE.log

[ -x "$DAEMON" ] || exit 0
. /lib/lsb/init-functions

[ -r "/etc/steerpoint/$ROLE.env" ] && . "/etc/steerpoint/$ROLE.env"
eval "ARGUMENTS=\${$OPTIONS:-}"
[ -z "${STEER_JOIN_TOKEN:-}" ] || export STEER_JOIN_TOKEN

running() {
	start-stop-daemon --status --pidfile "$PIDFILE" --name steer
}

# setpriv and not --chuid: with that the right to listen on port 53 would go too. ARGUMENTS is split at blanks.
start() {
	install -d -o root -g root -m 0755 /run/steerpoint
	install -d -o steer -g steer -m 0750 /var/log/steerpoint
	ulimit -n 65536 2>/dev/null || true
	umask 077
	start-stop-daemon --start --quiet --oknodo --background --make-pidfile --pidfile "$PIDFILE" --name steer \
		--chdir / --output "$LOG" --startas /usr/bin/setpriv -- \
		--reuid steer --regid steer --clear-groups --no-new-privs \
		--inh-caps=-all,+net_bind_service --bounding-set=-all,+net_bind_service --ambient-caps=-all,+net_bind_service \
		-- "$DAEMON" "$ROLE" --data "$DATA" $ARGUMENTS
}

stop() {
	start-stop-daemon --stop --quiet --oknodo --retry TERM/60/KILL/5 --pidfile "$PIDFILE" --name steer --remove-pidfile
}

case "${1:-}" in
start)
	log_daemon_msg "Starting" "$NAME"
	start
	log_end_msg $?
	;;
stop)
	log_daemon_msg "Stopping" "$NAME"
	stop
	log_end_msg $?
	;;
restart | force-reload)
	log_daemon_msg "Restarting" "$NAME"
	stop && start
	log_end_msg $?
	;;
reload)
	# An upgrade in place: the same process runs the program now on disk, and no query is lost.
	log_daemon_msg "Upgrading in place" "$NAME"
	start-stop-daemon --stop --signal USR2 --quiet --pidfile "$PIDFILE" --name steer
	log_end_msg $?
	;;
try-restart)
	if running; then
		"$0" restart
	fi
	;;
status)
	status_of_proc -p "$PIDFILE" "$DAEMON" "$NAME"
	;;
*)
	echo "usage: $0 start|stop|restart|force-reload|reload|try-restart|status" >&2
	exit 3
	;;
esac
