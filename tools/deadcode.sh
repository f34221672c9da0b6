#!/usr/bin/env bash
# Every function of the product must be reachable from cmd/steer. What only tests or the makers of built-in tables
# call stands in deadcode.allow with its reason; an entry that is no longer dead must go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

found="$(mktemp)" allowed="$(mktemp)"
trap 'rm -f "$found" "$allowed"' EXIT

# One name a line, "steerpoint/pkg.Func" or "steerpoint/pkg.Type.Method".
go tool -modfile=tools/go.mod deadcode \
	-f '{{range .Funcs}}{{printf "%s.%s\n" $.Path .Name}}{{end}}' ./cmd/... | sed '/^$/d' | sort -u >"$found"
sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' tools/deadcode.allow | sort -u >"$allowed"

status=0
if [ -n "$(comm -23 "$found" "$allowed")" ]; then
	echo "reached by nothing that steer runs (remove it, or list it in tools/deadcode.allow with a reason):"
	comm -23 "$found" "$allowed" | sed 's/^/  /'
	status=1
fi
if [ -n "$(comm -13 "$found" "$allowed")" ]; then
	echo "listed in tools/deadcode.allow, but reached or gone (remove the line):"
	comm -13 "$found" "$allowed" | sed 's/^/  /'
	status=1
fi
[ "$status" != 0 ] || echo "no dead code beyond $(wc -l <"$allowed") listed functions"
exit "$status"
