#!/bin/sh
# Makes the commit of a release, or tags it: tools/release.sh commit 0.1.0, and tools/release.sh tag 0.1.0. It pushes
# nothing. CONTRIBUTING.md has what comes before and after.
set -eu
cd "$(dirname "$0")/.."
what=${1:-} version=${2:-}
case "$what $version" in
"commit "[0-9]*.[0-9]*.[0-9]* | "tag "[0-9]*.[0-9]*.[0-9]*) ;;
*) echo "usage: tools/release.sh commit|tag X.Y.Z" >&2 && exit 2 ;;
esac
root=github.com/quorumlock/quorumlock
modules=$(git ls-files 'adapters/*/go.mod' 'otelredlock/go.mod' 'promredlock/go.mod' | sed 's|/go.mod$||')

case $what in
commit)
	test -z "$(git status --porcelain)" || { echo "there are changes that are not committed" >&2 && exit 1; }
	grep -q "^## \[$version\] - not released yet$" CHANGELOG.md || { echo "CHANGELOG.md has no section [$version] - not released yet" >&2 && exit 1; }
	today=$(date +%Y-%m-%d)
	sed -i "s/^## \[$version\] - not released yet$/## [$version] - $today/" CHANGELOG.md
	# Passages about the time before the first release, with the empty line behind.
	git ls-files '*.md' | xargs sed -i '/^<!-- until the first release -->$/,/^<!-- end -->$/{/^<!-- end -->$/N;d}'
	for module in $modules bench chaos integration; do
		(
			cd "$module"
			for required in $(sed -n "s|^\(require \)\{0,1\}[[:space:]]*\($root[^ ]*\) v.*|\2|p" go.mod); do
				go mod edit -require="$required@v$version"
			done
			go mod tidy # works before the version exists, because of replace
		)
	done
	case $version in *.0) go test -count=1 -run TestAPI_ ./internal/dev/api -freeze "v${version%.*}" ;; esac
	git add -A
	git commit -q -m "Release $version"
	git show --stat HEAD
	;;
tag)
	git tag -a "v$version" -m "v$version"
	for module in $modules; do
		git tag -a "$module/v$version" -m "$module/v$version"
	done
	git tag --points-at HEAD
	;;
esac
