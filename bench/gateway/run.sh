#!/bin/bash
# What 100,000 requests over kept connections cost the gateway, HAProxy and NGINX in processor seconds, in one run, in turns.
# The proxy has core 0, origin and load (wrk) core 1. Requests a second mean little on a busy machine; this does.
# Usage: run.sh [proxy...]; RUNS (5), LEN (5 s), CONNS (64), SIZE (1024); GATEWAY is the program of this folder, built.
set -eu
cd "$(dirname "$0")"
RUNS=${RUNS:-5} LEN=${LEN:-5} CONNS=${CONNS:-64} SIZE=${SIZE:-1024} GATEWAY=${GATEWAY:?the built program} ORIGIN=18080
WORK=$(mktemp -d)
HZ=$(getconf CLK_TCK)
PIDS=()
trap 'kill "${PIDS[@]}" 2>/dev/null || true; wait || true; rm -rf "$WORK"' EXIT

cpu() { # of a process and its children, in ticks
  local t=0 p l
  for p in $1 $(cat /proc/"$1"/task/*/children 2>/dev/null); do
    read -r l </proc/"$p"/stat
    l=${l##*) }
    set -- $l
    t=$((t + ${12} + ${13}))
  done
  echo "$t"
}
fill() { sed -e "s#@RUN@#$WORK#g; s#@PORT@#$2#; s#@ORIGIN@#$ORIGIN#" "$1"; }

taskset -c 1 env GOMAXPROCS=1 GOGC=400 "$GATEWAY" -origin 127.0.0.1:$ORIGIN -size "$SIZE" &
PIDS+=($!)
declare -A PID PORT BEST ALL
n=0
for name in "${@:-gateway haproxy nginx}"; do
  for name in $name; do
    n=$((n + 1))
    PORT[$name]=$((18090 + n))
    case $name in
    gateway) taskset -c 0 env GOMAXPROCS=1 "$GATEWAY" -listen 127.0.0.1:${PORT[$name]} -to 127.0.0.1:$ORIGIN -log "$WORK/gateway.log" ${PROFILE:+-cpuprofile $PROFILE} & ;;
    haproxy)
      fill haproxy.cfg.in "${PORT[$name]}" >"$WORK/h"
      taskset -c 0 haproxy -db -f "$WORK/h" >"$WORK/haproxy.log" 2>&1 &
      ;;
    nginx)
      fill nginx.conf.in "${PORT[$name]}" >"$WORK/n"
      taskset -c 0 nginx -c "$WORK/n" &
      ;;
    esac
    PID[$name]=$!
    PIDS+=($!)
  done
done
for name in "${!PID[@]}"; do
  until curl -s -o /dev/null http://127.0.0.1:"${PORT[$name]}"/; do
    kill -0 "${PID[$name]}" || { echo "$name has ended: $(cat "$WORK/$name.log" 2>/dev/null)"; exit 1; }
    sleep 0.1
  done
  taskset -c 1 wrk -t1 -c"$CONNS" -d1s http://127.0.0.1:"${PORT[$name]}"/ >/dev/null
done
for _ in $(seq "$RUNS"); do
  for name in "${!PID[@]}"; do
    before=$(cpu "${PID[$name]}")
    out=$(taskset -c 1 wrk -t1 -c"$CONNS" -d"$LEN"s http://127.0.0.1:"${PORT[$name]}"/)
    after=$(cpu "${PID[$name]}")
    grep -qE 'Non-2xx|Socket errors' <<<"$out" && echo "$name: $(grep -E 'Non-2xx|Socket errors' <<<"$out")"
    ALL[$name]+=" $(awk -v c=$((after - before)) -v hz="$HZ" '/requests in/{printf "%.2f", c / hz / ($1 / 1e5)}' <<<"$out")"
  done
done
echo "# processor seconds a 100,000 requests of $SIZE octets, $CONNS connections: least, median, all"
for name in "${!PID[@]}"; do
  tr ' ' '\n' <<<"${ALL[$name]}" | grep . | sort -n | awk -v n="$name" '{a[NR] = $1; s = s " " $1} END {printf "%-8s %6.2f %6.2f  (%s )\n", n, a[1], a[int((NR + 1) / 2)], s}'
done
