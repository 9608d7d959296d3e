#!/usr/bin/env bash
# Packages the tool of the commit HEAD into the folder that is named, which is emptied first. The same commit, built with the
# same version of Go, gives the same bytes.
set -euo pipefail
umask 022 # the modes in archives are those of the files here
cd "$(dirname "$0")/.."
out=$(realpath -m "$1")

# Newer versions of nfpm have more dependencies, such as one for msix.
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# go takes the version from the tag, or from the commit and its time. Only in a clone: it sees no repository in a worktree,
# and a file that is not committed would be in the version.
git -c advice.detachedHead=false clone --quiet . "$work/source"
cd "$work/source"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=true'
echo "build.sh: builds $nfpm and $cyclonedx; the first time this downloads a few hundred modules and takes minutes" >&2
for tool in "$nfpm" "$cyclonedx"; do GOBIN=$work GOFLAGS=-trimpath go install "$tool"; done # the SBOM has a hash of its tool

go build -o "$work/redlock" ./cmd/redlock # for this machine
version=$("$work/redlock" version | cut -d ' ' -f 2)
[[ $version == v* ]] || { echo "no version is known, but $version" >&2; exit 1; }
export VERSION=${version#v}

# third_party PACKAGE prints the licenses of all that is in the program.
third_party() {
    echo "Go: $(go env GOVERSION)"
    cat "$(go env GOROOT)/LICENSE"
    go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "$1" | sort -u |
        while read -r module release dir; do
            echo
            echo "$module $release"
            find "$dir" -iname 'license*' -o -iname 'copying*' -o -iname 'notice*' | sort | xargs cat
        done
}

rm -rf "$out"
mkdir -p "$out"
for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
    export GOOS=${platform%/*} GOARCH=${platform#*/}
    name=redlock_${VERSION}_${GOOS}_$GOARCH
    stage=$work/$name
    mkdir -p "$stage/completions"
    go build -ldflags '-s -w' -o "$stage/" ./cmd/redlock
    third_party ./cmd/redlock >"$stage/LICENSE.third-party"
    "$work/redlock" man | gzip -9n >"$stage/redlock.1.gz"
    for shell in bash zsh fish; do "$work/redlock" completion $shell >"$stage/completions/redlock.$shell"; done
    cp -r LICENSE README.md packaging/redlock-web.service examples/cron "$stage/"
    rm "$stage"/cron/*.go
    cp promredlock/alerts-{jobs,nodes}.yml promredlock/dashboard.json "$stage/cron/"
    find "$stage" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +

    tar -C "$work" --sort name --owner 0 --group 0 --numeric-owner -c "$name" | gzip -9n >"$out/$name.tar.gz"
    "$work/cyclonedx-gomod" bin -json -std -noserial -notimestamp -output "$out/$name.cdx.json" "$stage/redlock"
    [[ $GOOS == linux ]] || continue
    for packager in deb rpm; do
        (cd "$stage" && "$work/nfpm" package --config "$work/source/packaging/nfpm.yaml" --packager $packager --target "$out/$name.$packager" >/dev/null)
    done
    mkdir -p "$out/image/$GOARCH" # what the Dockerfile reads
    cp "$stage/redlock" "$stage"/LICENSE* "$out/image/$GOARCH/"
done
cp packaging/Dockerfile "$out/image/"
cd "$out"
sha256sum redlock* >SHA256SUMS
du -ah --apparent-size redlock* image
