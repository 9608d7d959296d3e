#!/usr/bin/env bash
# Checks what build.sh has made in the folder that is named: makes it once more, installs the package in a container of the
# Debian or Ubuntu of this machine, and runs the image. Needs debootstrap, which needs root, rpm and a Docker daemon.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "$1")
image=quorumlock-redlock:check
debian=quorumlock-debian:check
arch=$(go env GOARCH)
as_root=()
((EUID == 0)) || as_root=(sudo)

die() { echo "check.sh: $*" >&2; exit 1; }
for tool in debootstrap docker rpm; do PATH=$PATH:/usr/sbin command -v $tool >/dev/null || die "there is no $tool here"; done

work=$(mktemp -d)
containers=()
cleanup() {
    ((${#containers[@]} == 0)) || docker rm --force "${containers[@]}" >/dev/null
    "${as_root[@]}" rm -rf "$work"
}
trap cleanup EXIT

# expect CODE PATTERN COMMAND...: the command exits with the code, and its output has a line that matches.
expect() {
    local code=0 output
    output=$("${@:3}" 2>&1) || code=$?
    if ((code != $1)) || ! grep -qE -- "$2" <<<"$output"; then
        die "not exit code $1 and \"$2\" but $code of: ${*:3}"$'\n'"$output"
    fi
    echo "ok: ${*:3}"
}

# has LIST FILE...: the list has a line for each file.
has() {
    local file
    for file in "${@:2}"; do grep -qxF -- "$file" <<<"$1" || die "there is no $file in"$'\n'"$1"; done
}

# eventually PATTERN COMMAND...: its output has a line that matches, in the end.
eventually() {
    local deadline=$((SECONDS + 60))
    until "${@:2}" 2>&1 | grep -E -- "$1" >/dev/null; do
        ((SECONDS < deadline)) || die "never \"$1\" of: ${*:2}"
        sleep 0.1
    done
}

echo '=== the files'
(cd "$dist" && sha256sum --check --quiet SHA256SUMS)
packaging/build.sh "$work/again" >/dev/null
diff "$dist/SHA256SUMS" "$work/again/SHA256SUMS" || die 'the same commit gives other bytes'
version=$(basename "$dist"/redlock_*_linux_"$arch".tar.gz "_linux_$arch.tar.gz")
version=${version#redlock_}
for platform in {linux,darwin}_{amd64,arm64}; do
    name=redlock_${version}_$platform
    has "$(tar -tf "$dist/$name.tar.gz")" "$name"/{redlock,redlock.1.gz,LICENSE,LICENSE.third-party,README.md,completions/redlock.{bash,zsh,fish}}
    grep -q "\"pkg:golang/github.com/quorumlock/quorumlock@v$version" "$dist/$name.cdx.json" || die "$name.cdx.json is of another version"
done
files=(/usr/bin/redlock /usr/share/man/man1/redlock.1.gz /usr/share/bash-completion/completions/redlock
    /usr/share/fish/vendor_completions.d/redlock.fish /usr/share/doc/redlock/LICENSE.third-party
    /usr/share/doc/redlock/examples/cron/{backup.service,alerts-{jobs,nodes}.yml,dashboard.json} /usr/lib/systemd/system/redlock-web.service)
for package in "$dist"/*.rpm; do
    has "$(rpm -qlp "$package")" "${files[@]}" /usr/share/zsh/site-functions/_redlock
    expect 0 'digests.* OK' rpm --checksig "$package"
done

echo '=== the package, installed'
# shellcheck disable=SC1091 # that of this machine
suite=$(. /etc/os-release; echo "$VERSION_CODENAME $ID")
components=main
[[ $suite != *' ubuntu' ]] || components=main,universe
tools/debian.sh $debian "${suite% *}" $components bash-completion,man-db,redis-server
server=$(docker run --detach --volume "$dist:/dist:ro" $debian redis-server)
containers+=("$server")
eventually PONG docker exec "$server" redis-cli ping
inside() { docker exec --env REDLOCK_NODES=redis://127.0.0.1 "$server" "$@"; }
expect 0 'Setting up redlock' inside dpkg -i "/dist/redlock_${version}_linux_$arch.deb"
has "$(inside dpkg -L redlock)" "${files[@]}" /usr/share/zsh/vendor-completions/_redlock
expect 0 "^redlock v$version " inside redlock version
expect 0 '^REDLOCK\(1\)' inside man redlock
expect 0 '^complete .* redlock$' inside bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader redlock; complete -p redlock'
expect 0 '^backup of backup$' inside redlock run backup -- sh -c "echo \"\$REDLOCK_NAME of backup\""
expect 7 '' inside redlock run backup -- sh -c 'exit 7'
expect 0 '' inside dpkg --purge redlock
expect 2 'No such file' inside ls /usr/bin/redlock

echo '=== the image'
docker build --quiet --build-arg TARGETARCH="$arch" --tag $image "$dist/image" >/dev/null
redlock=(--network "container:$server" --env REDLOCK_NODES=redis://127.0.0.1 "$image")
expect 0 "^redlock v$version " docker run --rm $image version
expect 0 '^Held by nobody' docker run --rm "${redlock[@]}" inspect backup
expect 0 "^redlock v$version " docker run --rm "${redlock[@]}" run backup -- /redlock version
expect 127 'no-such-program' docker run --rm "${redlock[@]}" run backup -- /no-such-program

# One holds the lock and runs a page, another waits: both are process 1 of their containers, and end at TERM.
holder=$(docker run --detach "${redlock[@]}" run --json backup -- /redlock web --nodes redis://127.0.0.1)
containers+=("$holder")
eventually 'http://127.0.0.1:8379/' docker logs "$holder"
expect 0 'Held by a majority' docker run --rm "${redlock[@]}" inspect backup
expect 75 'held by another' docker run --rm "${redlock[@]}" run -n backup -- /redlock version
waiter=$(docker run --detach "${redlock[@]}" run --json backup -- /redlock version)
containers+=("$waiter")
eventually '"blocked"' docker logs "$waiter"
docker kill --signal TERM "$waiter" >/dev/null
expect 0 '^143$' docker wait "$waiter"
docker kill --signal TERM "$holder" >/dev/null
expect 0 '^0$' docker wait "$holder" # that of "redlock web"
expect 0 '"released"' docker logs "$holder"
echo '=== all is as it should be'
