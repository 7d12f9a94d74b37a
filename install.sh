#!/bin/sh
# Install windtunnel from a release: download the archive for this machine, compare its
# SHA-256 sum, and copy the files below a prefix. Root is not needed.
#
#   curl -fsSL https://raw.githubusercontent.com/windtunnel/windtunnel/main/install.sh | sh
#   sh install.sh --version v0.1.0 --prefix ~/.local
set -eu

usage() {
	cat <<'TEXT'
Usage: install.sh [--version VERSION] [--prefix DIR] [--base-url URL]

  --version VERSION   release to install, such as v0.1.0 (default: the latest)
  --prefix DIR        install to DIR/bin and DIR/share (default: /usr/local for root, else ~/.local)
  --base-url URL      take the files from URL instead of the releases on GitHub
TEXT
}

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

version=latest
prefix=
base=
while [ $# -gt 0 ]; do
	case $1 in
	--version | --prefix | --base-url)
		[ $# -ge 2 ] || fail "$1 needs a value"
		case $1 in
		--version) version=$2 ;;
		--prefix) prefix=$2 ;;
		--base-url) base=$2 ;;
		esac
		shift 2
		;;
	--version=*) version=${1#*=} && shift ;;
	--prefix=*) prefix=${1#*=} && shift ;;
	--base-url=*) base=${1#*=} && shift ;;
	-h | --help) usage && exit 0 ;;
	*) fail "unknown argument $1 (install.sh --help lists the arguments)" ;;
	esac
done

if [ -z "$prefix" ]; then
	if [ "$(id -u)" = 0 ]; then
		prefix=/usr/local
	else
		[ -n "${HOME:-}" ] || fail "HOME is not set: use --prefix DIR"
		prefix=$HOME/.local
	fi
fi

releases=https://github.com/windtunnel/windtunnel/releases
if [ -n "$base" ]; then
	base=${base%/}
elif [ "$version" = latest ]; then
	base=$releases/latest/download
else
	case $version in
	v[0-9]*) ;;
	[0-9]*) version=v$version ;;
	*) fail "version $version is not of the form v0.1.0" ;;
	esac
	base=$releases/download/$version
fi

case $(uname -s) in
Linux) system=linux ;;
Darwin) system=darwin ;;
*) fail "there is no archive for $(uname -s): see $releases" ;;
esac
case $(uname -m) in
x86_64 | amd64) machine=amd64 ;;
aarch64 | arm64) machine=arm64 ;;
*) fail "there is no archive for $(uname -m): see $releases" ;;
esac

if command -v curl >/dev/null 2>&1; then
	fetch() { curl -fsSL --retry 2 -o "$2" "$1"; }
elif command -v wget >/dev/null 2>&1; then
	fetch() { wget -q -O "$2" "$1"; }
else
	fail "curl or wget is needed"
fi
if command -v sha256sum >/dev/null 2>&1; then
	sum() { sha256sum <"$1" | cut -d ' ' -f 1; }
elif command -v shasum >/dev/null 2>&1; then
	sum() { shasum -a 256 <"$1" | cut -d ' ' -f 1; }
else
	fail "sha256sum or shasum is needed"
fi

work=$(mktemp -d) || fail "cannot make a folder in ${TMPDIR:-/tmp}: set TMPDIR to another folder"
: >"$work/staged"
clean() {
	while read -r name; do rm -f "$name.new.$$"; done <"$work/staged"
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

fetch "$base/SHA256SUMS" "$work/SHA256SUMS" || fail "cannot download $base/SHA256SUMS"

# A line of SHA256SUMS is the sum, two spaces and the name.
wanted=
while read -r digest name; do
	case $name in
	windtunnel_*_"${system}_$machine.tar.gz") wanted=$digest && archive=$name ;;
	esac
done <"$work/SHA256SUMS"
[ -n "$wanted" ] || fail "$base/SHA256SUMS names no archive for $system/$machine"
if [ "$version" != latest ] && [ "$archive" != "windtunnel_${version#v}_${system}_$machine.tar.gz" ]; then
	fail "$base has $archive, not version $version"
fi

fetch "$base/$archive" "$work/$archive" || fail "cannot download $base/$archive to $work: if that is full, set TMPDIR to another folder"
got=$(sum "$work/$archive")
[ "$got" = "$wanted" ] || fail "$archive has SHA-256 $got, SHA256SUMS says $wanted: nothing was installed; download it again"

mkdir "$work/files"
tar -xzf "$work/$archive" -C "$work/files" --strip-components=1 || fail "cannot unpack $archive in $work: if that is full, set TMPDIR to another folder"
[ -f "$work/files/windtunnel" ] || fail "$archive has no windtunnel"

# A program that runs cannot be written to, but it can be replaced: copy all files, and
# rename them when each has found room. Until then what was installed before stays whole.
put() { # put FILE FOLDER MODE
	[ -f "$work/files/$1" ] || return 0
	mkdir -p "$2" || fail "cannot write to $2: use --prefix DIR"
	name=$2/${1##*/}
	echo "$name" >>"$work/staged"
	{ cp "$work/files/$1" "$name.new.$$" && chmod "$3" "$name.new.$$"; } || fail "cannot write $name, nothing was installed: use --prefix DIR"
}
put kube-plane "$prefix/bin" 755
put windtunnel "$prefix/bin" 755
put completions/windtunnel.bash "$prefix/share/windtunnel/completions" 644
put completions/windtunnel.zsh "$prefix/share/windtunnel/completions" 644
put completions/windtunnel.fish "$prefix/share/windtunnel/completions" 644
put LICENSE "$prefix/share/doc/windtunnel" 644
put THIRD_PARTY_LICENSES "$prefix/share/doc/windtunnel" 644
for page in "$work"/files/man/*.1; do
	[ -f "$page" ] || continue
	put "man/${page##*/}" "$prefix/share/man/man1" 644
done

while read -r name; do
	mv -f "$name.new.$$" "$name" || fail "cannot replace $name: run install.sh again"
done <"$work/staged"

installed=$("$prefix/bin/windtunnel" --version) || fail "$prefix/bin/windtunnel does not run on this machine: see $releases for other archives"
echo "installed $installed to $prefix/bin"
case :${PATH:-}: in
*":$prefix/bin:"*) ;;
*) echo "$prefix/bin is not in PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
[ -f "$work/files/kube-plane" ] || echo "this archive has no control plane: use windtunnel run --kubeconfig, or a Linux machine"
