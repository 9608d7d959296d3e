#!/usr/bin/env bash
# Prints the name of the Redis image that the integration tests run on, as the only line on its standard output.
#
#   1. $QUORUMLOCK_REDIS_IMAGE, where it is set;
#   2. the official image, if it is here;
#   3. an image made earlier from the installed redis-server, unless another version is installed now;
#   4. the official image, if it can be pulled;
#   5. an image made now from the installed redis-server.
#
# An image made here starts redis-server itself, so it needs "--protected-mode no" to be reached from other hosts.
set -euo pipefail

official=redis:7.4
homemade=quorumlock-redis:local
pull_seconds=60

say() { echo "image.sh: $*" >&2; }
die() { say "$@"; exit 1; }
here() { docker image inspect "$1" >/dev/null 2>&1; }
have() { command -v "$1" >/dev/null; }
installed() { [[ $(uname -s) == Linux ]] && have redis-server && have redis-cli && have ldd; }
version() { redis-server --version; }

pull() {
    local bounded=(docker)
    if have timeout; then bounded=(timeout "$pull_seconds" docker); fi
    "${bounded[@]}" pull --quiet "$1" >/dev/null
}

use() {
    say "using $1${2:+ ($2)}"
    echo "$1"
    exit
}

# up_to_date: the homemade image is here and holds the version that is installed.
up_to_date() {
    here "$homemade" || return
    ! installed || [[ $(docker image inspect --format '{{index .Config.Labels "redis-and-sh"}}' "$homemade") == "$(version)" ]]
}

# make_image puts redis-server, redis-cli, sh and the libraries that they load into an image, with the user redis, who owns /data.
make_image() {
    local root binary library
    root=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder as it is named now
    trap "rm -rf '$root'" EXIT
    mkdir -p "$root/usr/bin" "$root/data" "$root/etc"
    echo 'redis:x:999:999::/data:/usr/bin/sh' >"$root/etc/passwd"
    for binary in redis-server redis-cli sh; do
        binary=$(command -v "$binary")
        cp --dereference "$binary" "$root/usr/bin/"
        while read -r library; do
            cp --dereference --parents "$library" "$root"
        done < <(ldd "$binary" | grep -oE '/[^ ]+')
    done
    tar -C "$root" --owner 999 --group 999 -c . | docker import \
        --change 'ENTRYPOINT ["/usr/bin/redis-server"]' \
        --change 'EXPOSE 6379' \
        --change "LABEL redis-and-sh=\"$(version)\"" \
        - "$homemade" >/dev/null
}

docker info >/dev/null 2>&1 || die 'no Docker daemon answers'

if [[ -n ${QUORUMLOCK_REDIS_IMAGE:-} ]]; then
    here "$QUORUMLOCK_REDIS_IMAGE" || pull "$QUORUMLOCK_REDIS_IMAGE" ||
        die "QUORUMLOCK_REDIS_IMAGE=$QUORUMLOCK_REDIS_IMAGE is not here and cannot be pulled"
    use "$QUORUMLOCK_REDIS_IMAGE" QUORUMLOCK_REDIS_IMAGE
fi
if here "$official"; then use "$official"; fi
if up_to_date; then use "$homemade" 'made earlier from redis-server'; fi
if pull "$official"; then use "$official" pulled; fi
installed || die "$official cannot be pulled, and no redis-server is installed to make an image from"
make_image
use "$homemade" "made from $(version)"
