#!/usr/bin/env bash
# Builds the Debian package: build_deb.sh BINARY VERSION FOLDER. BINARY is steer, built for this machine; the package is
# FOLDER/steerpoint_VERSION_ARCH.deb. The same files give the same octets: times are SOURCE_DATE_EPOCH, by default that of
# the last commit; owners are root; the order is that of names.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
binary="$(realpath "$1")" version="$2" folder="$3"
umask 022
export LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH

arch="$(dpkg --print-architecture)"
stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
root="$stage/root"

put() { # MODE SOURCE TARGET
	install -D -m "$1" "$2" "$root/$3"
}
made() { # TARGET, from standard input; text that is packed as the policy asks
	mkdir -p "$(dirname "$root/$1")"
	case "$1" in
	*.gz) gzip -9n >"$root/$1" ;;
	*) cat >"$root/$1" ;;
	esac
}
# steer runs with a home of its own, so that no settings of the builder get in.
steer() {
	env -i HOME="$stage" PATH="$PATH" NO_COLOR=1 "$binary" "$@"
}

put 0755 "$binary" usr/bin/steer
for role in control node; do
	put 0644 "$here/systemd/steer-$role.service" "usr/lib/systemd/system/steer-$role.service"
	put 0755 "$here/sysv/steer-$role" "etc/init.d/steer-$role"
	put 0644 "$here/etc/$role.env" "etc/steerpoint/$role.env"
	put 0644 "$here/etc/$role.yaml" "etc/steerpoint/$role.yaml"
done
put 0644 "$here/sysv/service.sh" usr/share/steerpoint/service.sh
put 0644 "$here/debian/copyright" usr/share/doc/steerpoint/copyright
put 0644 "$here/../docs/operations.md" usr/share/doc/steerpoint/operations.md
made usr/share/doc/steerpoint/changelog.gz <"$here/../CHANGELOG.md"
"$here/licenses.sh" | made usr/share/doc/steerpoint/licenses.gz
steer man | made usr/share/man/man1/steer.1.gz
steer completion bash | made usr/share/bash-completion/completions/steer
steer completion zsh | made usr/share/zsh/vendor-completions/_steer
steer completion fish | made usr/share/fish/vendor_completions.d/steer.fish

mkdir -p "$root/DEBIAN"
for script in postinst prerm postrm; do
	install -m 0755 "$here/debian/$script" "$root/DEBIAN/$script"
done
install -m 0644 "$here/debian/conffiles" "$root/DEBIAN/conffiles"
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
# In KiB, each file and folder rounded up: the same on every file system, unlike du.
size="$(find "$root" -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' -o -printf '1\n' | awk '{n += int(($1 + 1023) / 1024)} END {print n}')"
sed -e "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@SIZE@/$size/" "$here/debian/control.in" >"$root/DEBIAN/control"

find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$folder"
package="$folder/steerpoint_${version}_$arch.deb"
dpkg-deb --root-owner-group --uniform-compression "-Z${COMPRESSION:-xz}" --build "$root" "$package" >/dev/null
echo "$package"
