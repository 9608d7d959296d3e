#!/usr/bin/env bash
# Runs the two commands of the README on a machine that has Go, git and make, and nothing else: a container of a bare Debian.
# Before that, make test alone, which has to pass there, and to say what it leaves out. Needs Linux, Docker and debootstrap.
#
# The packages that make setup installs come from the network. Without it that half is left out; with CI=true that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${SUITE:-bookworm} # of Debian, also on Ubuntu, whose Chromium is no package
image=quorumlock-bare:$suite
bare=quorumlock-bare-$$
work=$(mktemp -d)

cleanup() {
    docker rm --force --volumes "$bare" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT

die() { echo "bare.sh: $*" >&2; exit 1; }

inside() { docker exec --workdir /root/quorumlock "$bare" "$@"; }

# start runs the container: with the Go and the modules of this machine, and with what a Docker daemon in it needs. It may not be
# privileged: that takes capabilities which not every machine has. Volumes, into which Docker copies what the image has there, are
# faster than the file system of a container, and let the daemon in it have one like that.
start() {
    local module
    for module in . */go.mod adapters/*/go.mod; do go -C "${module%go.mod}" mod download; done
    docker run --detach --name "$bare" \
        --cap-add SYS_ADMIN --cap-add NET_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
        --security-opt systempaths=unconfined --cgroupns host --volume /sys/fs/cgroup:/sys/fs/cgroup \
        --volume /usr --volume /var --volume /root --volume /tmp \
        --volume "$(go env GOROOT):/usr/local/go:ro" --volume "$(go env GOMODCACHE):/root/go/pkg/mod:ro" \
        --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin \
        --env GOFLAGS="$(go env GOFLAGS)" --env GOTOOLCHAIN=local --env GOPROXY=off \
        "$image" sleep infinity >/dev/null
    git clone --quiet --no-hardlinks . "$work/quorumlock"
    docker cp "$work/quorumlock" "$bare:/root/" >/dev/null 2>&1
}

# run FILE COMMAND...: prints what the command in the container prints, keeps it in the file, and fails with it.
run() {
    local begin=$SECONDS
    echo "=== ${*:2}"
    inside "${@:2}" 2>&1 | tee "$work/$1" || die "it has failed: ${*:2}"
    echo "=== ${*:2}: $((SECONDS - begin)) s"
}

# the_rest_is_tested: the last lines of make test say what was left out, one for each thing that make setup brings, but make itself.
the_rest_is_tested() {
    local left things
    left=$(inside tools/setup.sh left-out)
    things=$(inside tools/setup.sh list | grep -vc '^make|')
    (($(grep -c 'make setup brings it$' <<<"$left") == things)) || die "this should be left out: all $things things of the list"
    [[ $(tail -n "$things" "$work/bare") == "$left" ]] || die 'the last lines are not what is left out'
    (($(grep -c '^LEFT OUT' "$work/bare") == things)) || die 'more was left out than what make setup brings'
}

# docker_daemon starts one, as the init of a machine does when the package is installed.
docker_daemon() {
    docker exec --detach "$bare" sh -c 'exec dockerd >/var/log/dockerd 2>&1'
    local deadline=$((SECONDS + 60))
    until inside docker info >/dev/null 2>&1; do
        ((SECONDS < deadline)) || { inside tail -n 20 /var/log/dockerd; die 'the Docker daemon did not come up'; }
        sleep 0.5
    done
}

tools/debian.sh "$image" "$suite" main ca-certificates,git,make
start
run demo go run ./cmd/redlock demo
run bare make test
the_rest_is_tested

if ! inside apt-get update -qq >/dev/null 2>&1; then
    echo 'LEFT OUT: make setup test, as no packages can be had from here'
    [[ ${CI:-} != true ]] || die 'CI=true, but this was left out'
    exit 0
fi
run setup make setup
grep -q '^setup.sh: apt-get install gcc ' "$work/setup" || die 'make setup has not said what it installs'
docker_daemon
run all make setup test
! grep -q '^LEFT OUT\|^setup.sh' "$work/all" || die 'something was left out, or installed once more'
echo '=== a bare machine needs these commands and no other'
