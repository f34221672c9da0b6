#!/usr/bin/env bash
# Prints the licences of everything linked into steer: the Go library, and each module with its version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

show() { # NAME FOLDER
	local found=0 file
	for file in "$2"/LICENSE* "$2"/LICENCE* "$2"/COPYING* "$2"/NOTICE*; do
		[ -f "$file" ] || continue
		found=1
		printf '==== %s: %s\n\n' "$1" "$(basename "$file")"
		cat "$file"
		printf '\n'
	done
	if [ "$found" = 0 ]; then
		echo "no licence file of $1 in $2" >&2
		return 1
	fi
}

show "go $(go env GOVERSION)" "$(go env GOROOT)"
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/steer | sort -u |
	while read -r module dir; do
		show "$module" "$dir"
	done
