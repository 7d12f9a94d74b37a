#!/usr/bin/env bash
# Run windtunnel in a job of GitHub Actions. The inputs are environment variables.
# SHA256SUMS and VERSION beside this file belong to the release that the action was
# published with: a changed archive is refused.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# end VERDICT CODE: write the outputs, then succeed or fail as fail-on says.
end() {
	{
		echo "exit-code=$2"
		echo "verdict=$1"
		echo "directory=$directory"
	} >>"$GITHUB_OUTPUT"
	case " ${INPUT_FAIL_ON:-fail unknown fault} " in
	*" $1 "*) exit "$2" ;;
	esac
	exit 0
}

# refuse MESSAGE: the input or the download is at fault.
refuse() {
	local message=$1
	message=${message//'%'/%25}
	message=${message//$'\r'/%0D}
	message=${message//$'\n'/%0A}
	echo "::error title=windtunnel::$message"
	end fault 3
}

directory=${INPUT_DIRECTORY:-windtunnel-results}
case $directory in
*$'\n'* | *$'\r'*) directory=windtunnel-results && refuse "the input directory has more than one line" ;;
-*) directory=./$directory ;;
esac
command=${INPUT_COMMAND:-run}
case $command in
run | ab | bisect) ;;
*) refuse "the input command is $command: use run, ab or bisect" ;;
esac
scenario=${INPUT_SCENARIO:-}
[ -n "$scenario" ] || refuse "the input scenario is empty"
case $scenario in
-*) scenario=./$scenario ;;
esac

install_release() {
	local machine archive wanted got
	case $(uname -s)/$(uname -m) in
	Linux/x86_64) machine=amd64 ;;
	Linux/aarch64) machine=arm64 ;;
	*) refuse "the action needs a Linux runner (amd64 or arm64), this one is $(uname -s)/$(uname -m)" ;;
	esac
	archive=windtunnel_$(cat "$here/VERSION")_linux_$machine.tar.gz
	wanted=$(awk -v name="$archive" '$2 == name { print $1 }' "$here/SHA256SUMS")
	[ -n "$wanted" ] || refuse "the action's SHA256SUMS does not name $archive"
	local base=${WINDTUNNEL_DOWNLOADS:-https://github.com/windtunnel/windtunnel/releases/download/v$(cat "$here/VERSION")}
	curl -fsSL --retry 3 -o "$work/$archive" "$base/$archive" || refuse "cannot download $base/$archive"
	got=$(sha256sum <"$work/$archive" | cut -d ' ' -f 1)
	[ "$got" = "$wanted" ] || refuse "$archive has SHA-256 $got, the action expects $wanted"
	mkdir "$work/windtunnel"
	tar -xzf "$work/$archive" -C "$work/windtunnel" --strip-components=1 || refuse "cannot unpack $archive"
	binary=$work/windtunnel/windtunnel
}

work=$(mktemp -d "${RUNNER_TEMP:-/tmp}/windtunnel.XXXXXX")
trap 'rm -rf "$work"' EXIT
binary=${INPUT_BINARY:-}
if [ -z "$binary" ]; then
	install_release
fi
[ -x "$binary" ] || refuse "the input binary $binary is not an executable"

arguments=()
while IFS= read -r line || [ -n "$line" ]; do
	line=${line%$'\r'}
	if [ -n "$line" ]; then
		arguments+=("$line")
	fi
done <<<"${INPUT_ARGUMENTS:-}"

# The token is for the comment. The scenario may start programs, which do not get it.
token=${INPUT_TOKEN:-}
unset INPUT_TOKEN

code=0
"$binary" "$command" "$scenario" --out "$directory" --output markdown ${arguments[@]+"${arguments[@]}"} >"$work/summary.md" || code=$?
case $code in
0) verdict=pass ;;
1) verdict=fail ;;
2) verdict=unknown ;;
*) verdict=fault && code=3 ;;
esac
[ -s "$work/summary.md" ] || echo "windtunnel $command ended without a result (exit code $code): see the log of this step." >"$work/summary.md"

# GitHub drops a summary above 1 MiB and refuses a comment above 65,536 characters.
head -c 1000000 "$work/summary.md" >>"$GITHUB_STEP_SUMMARY"

if [ "${INPUT_COMMENT:-false}" = true ]; then
	if [ -z "${PULL_REQUEST:-}" ]; then
		echo "::notice title=windtunnel::no comment: this is not a pull request"
	else
		{ echo "<!-- windtunnel -->" && head -c 60000 "$work/summary.md"; } >"$work/comment.md"
		GH_TOKEN=$token gh pr comment "$PULL_REQUEST" --repo "$GITHUB_REPOSITORY" --body-file "$work/comment.md" --edit-last --create-if-none ||
			echo "::warning title=windtunnel::the comment could not be written: the job needs the permission pull-requests: write"
	fi
fi
end "$verdict" "$code"
