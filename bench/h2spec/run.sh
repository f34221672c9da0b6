#!/bin/bash
# What h2spec says of the gateway of `steer up`, without TLS and over it. Nothing of h2spec is part of this program: where it is not
# installed, nothing is run, and that is said.
# Usage: run.sh [argument of h2spec...]; STEER and ORIGIN are the built programs (cmd/steer, bench/h2spec), H2SPEC that of h2spec, OUT a
# file for what it says. It needs root: h2spec gets a name that is in /etc/hosts of a mount namespace of its own alone.
set -eu
STEER=${STEER:?the built program} ORIGIN=${ORIGIN:?the built program} H2SPEC=${H2SPEC:-h2spec} OUT=${OUT:-$(mktemp)}
ORIGIN_PORT=${ORIGIN_PORT:-18180} PLAIN_PORT=${PLAIN_PORT:-18181} TLS_PORT=${TLS_PORT:-18182}
command -v "$H2SPEC" >/dev/null || { echo "not run: there is no $H2SPEC (go install github.com/summerwind/h2spec/cmd/h2spec@latest)"; exit 0; }
unshare -m true 2>/dev/null || { echo "not run: a mount namespace needs root"; exit 0; }
WORK=$(mktemp -d)
PIDS=()
trap 'kill "${PIDS[@]}" 2>/dev/null || true; wait || true; rm -rf "$WORK"' EXIT

"$ORIGIN" 127.0.0.1:$ORIGIN_PORT &
PIDS+=($!)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=site.example.com -addext subjectAltName=DNS:site.example.com \
  -keyout "$WORK/key.pem" -out "$WORK/chain.pem" 2>/dev/null
chmod 600 "$WORK/key.pem"
cat >"$WORK/site.yaml" <<YAML
apiVersion: steerpoint/v1
kind: Zone
name: main
zone: gslb.example.net
ns: [{name: ns1.gslb.example.net, addresses: ["192.0.2.53"]}]
---
apiVersion: steerpoint/v1
kind: Service
name: site
domains: [site.example.com]
certificates: {site.example.com: site}
edges: [{name: gateway, addresses: ["192.0.2.1"]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [gateway]}]
originGroups: [{name: web, origins: [{name: one, address: "127.0.0.1:$ORIGIN_PORT", scheme: http}]}]
routes: [{name: all, originGroup: web}]
---
apiVersion: steerpoint/v1
kind: Certificate
name: site
names: [site.example.com]
files: {chain: $WORK/chain.pem, key: $WORK/key.pem}
YAML
export STEER_DATA=$WORK/data
"$STEER" up --listen dns=127.0.0.1:0 --listen api=127.0.0.1:0 --listen http=127.0.0.1:$PLAIN_PORT --listen https=127.0.0.1:$TLS_PORT >"$WORK/up.log" 2>&1 &
PIDS+=($!)
for _ in $(seq 300); do
  "$STEER" apply -f "$WORK/site.yaml" >"$WORK/apply.log" 2>&1 && break
  sleep 0.2
done
ready=
for _ in $(seq 300); do
  if curl -ksf --resolve "site.example.com:$TLS_PORT:127.0.0.1" -o /dev/null "https://site.example.com:$TLS_PORT/"; then ready=yes; break; fi
  sleep 0.2
done
[ -n "$ready" ] || { echo "the gateway does not answer"; cat "$WORK/apply.log" "$WORK/up.log"; exit 1; }

cp /etc/hosts "$WORK/hosts"
echo "127.0.0.1 site.example.com" >>"$WORK/hosts"
ask() { # h2spec, in a mount namespace that knows the name
  unshare -m sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$WORK/hosts" "$H2SPEC" -h site.example.com "$@" 2>&1 | sed 's/\x1b\[[0-9;]*m//g' >"$WORK/said" || true
  grep -E '^[0-9]+ tests' "$WORK/said" || { cat "$WORK/said"; exit 1; }
  sed -n '/^Failures/,$p' "$WORK/said" | grep '×' || true
}
{
  echo "# h2spec, the gateway of steer up, over TLS"
  ask -p "$TLS_PORT" -t -k "$@"
  echo "# without TLS"
  ask -p "$PLAIN_PORT" "$@"
} | tee "$OUT"
failed=$(awk '/^[0-9]+ tests/ {n += $(NF-1)} END {print n + 0}' "$OUT")
[ "$failed" -le 1 ] || { echo "more fails than docs/gateway-http.md names"; exit 1; }
