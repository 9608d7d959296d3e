#!/usr/bin/env bash
# What the tests need beside Go: the one list of it, of which each line may be missing.
#
#   setup.sh             installs what is missing, or prints the line that does. It prints nothing if nothing is missing.
#   setup.sh left-out    prints what make test leaves out here, a line for each. With CI=true it fails if there is a line.
#   setup.sh has NAME    succeeds if the thing of that name is there.
#   setup.sh list        prints the list.
#
# The bash 3.2 of macOS can run it.
set -euo pipefail
cd "$(dirname "$0")/.."

# list prints, for each thing: its name, what is left out without it, what is missing then, its packages of Debian and Ubuntu,
# and its formulas of Homebrew. On macOS nothing needs what has none there.
list() {
    sed 's/ *| */|/g' <<'END'
compiler   | the race detector, and tests of servers with clocks of their own | no C compiler is installed | gcc libc6-dev | -
make       | everything                                  | make is not installed                 | make                 | make
redis      | tests on real servers                       | redis-server is not installed         | redis-server         | redis
postgresql | tests on PostgreSQL                         | PostgreSQL is not installed           | postgresql           | postgresql
mariadb    | tests on MariaDB                            | MariaDB is not installed              | mariadb-server       | mariadb
chromium   | tests in a browser                          | Chromium is not installed             | chromium             | chromium
prometheus | tests of metrics, dashboard and alerts      | Prometheus is not installed           | prometheus           | prometheus
alertmanager | the check of the example's Alertmanager configuration | amtool is not installed | prometheus-alertmanager | -
shells     | tests of completion in zsh and fish         | zsh and fish are not both installed   | zsh fish             | zsh fish
wrappers   | tests of jobs that change their user or session | sudo, su or script is not installed | sudo util-linux bsdutils | -
python     | tests beside a client in Python             | no Python has the package redis       | python3-redis        | -
networks   | tests of servers in networks of their own   | iproute2 is not installed             | iproute2 util-linux  | -
docker     | integration tests on containers             | Docker is not installed               | docker.io            | -
compose    | the test of examples/sentinel               | Docker Compose is not installed       | docker-compose       | -
END
}

die() { echo "setup.sh: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null; }
on_macos() { [[ $(uname -s) == Darwin ]]; }

# has NAME: the thing is there, wherever Debian keeps it.
has() {
    case $1 in
        compiler) have cc && go build -race runtime/cgo >/dev/null 2>&1 ;; # which needs the headers of C too
        make) have make ;;
        redis) have "${QUORUMLOCK_REDIS_SERVER:-redis-server}" ;;
        postgresql) have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
        mariadb) have mariadbd || [[ -x /usr/sbin/mariadbd ]] ;;
        chromium) have chromium || have chromium-browser || have google-chrome ;;
        prometheus) have prometheus && have promtool ;;
        alertmanager) have amtool ;;
        shells) have zsh && have fish ;;
        wrappers) have sudo && have su && have runuser && have script && have setsid ;;
        python) /usr/bin/python3 -c 'import redis' 2>/dev/null || python3 -c 'import redis' 2>/dev/null ;;
        networks) have ip && have nsenter ;;
        docker) have docker && { have dockerd || [[ -x /usr/sbin/dockerd ]] || docker info >/dev/null 2>&1; } ;;
        compose) docker compose version >/dev/null 2>&1 || have docker-compose ;;
        *) die "$1 is not in the list" ;;
    esac
}

# missing prints the lines of the list whose things are not there.
missing() {
    local line
    list | while read -r line; do
        if on_macos && [[ $line == *'|-' ]]; then continue; fi
        has "${line%%|*}" </dev/null || echo "$line"
    done
}

# namespaces: this account may make those that the tests of chaos/ live in.
namespaces() {
    local user=(--user --map-root-user)
    ((EUID != 0)) || user=()
    unshare ${user[@]+"${user[@]}"} --net --mount --pid --fork --mount-proc ip link set lo up 2>/dev/null
}

# left_out also prints what no package brings. QUORUMLOCK_REDIS_IMAGE is empty if image.sh has found none.
left_out() {
    missing | while IFS='|' read -r _ what why _; do
        echo "LEFT OUT: $what, as $why: make setup brings it"
    done
    if has networks && ! namespaces; then
        echo 'LEFT OUT: tests of servers in networks of their own, as this account may not make namespaces (docs/chaos.md)'
    fi
    if has docker && [[ -z ${QUORUMLOCK_REDIS_IMAGE:-} ]]; then
        echo 'LEFT OUT: integration tests on containers, as no Docker daemon answers this account, or it has no Redis image (see the lines of image.sh above)'
    fi
}

# as_root COMMAND...: runs it as root, without a question.
as_root() { if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi; }

# with_client PACKAGES: with the client of Docker, which is a package of its own in newer releases.
with_client() {
    if [[ " $1 " == *' docker.io '* ]] && apt-cache show docker-cli >/dev/null 2>&1; then echo "$1 docker-cli"; else echo "$1"; fi
}

setup() {
    local lacking packages formulas
    have go || die 'there is no Go here: install Go 1.26 or newer (https://go.dev/doc/install)'
    lacking=$(missing)
    [[ -n $lacking ]] || return 0
    if on_macos; then
        formulas=$(cut -d '|' -f 5 <<<"$lacking" | paste -s -d ' ' -)
        die "this installs what is missing: brew install $formulas"
    fi
    packages=$(cut -d '|' -f 4 <<<"$lacking" | paste -s -d ' ' -)
    have apt-get || die "there is no apt-get here; please install what Debian calls $packages"
    as_root true 2>/dev/null ||
        die "this installs what is missing: sudo apt-get update && sudo apt-get install --no-install-recommends $(with_client "$packages")"
    echo "setup.sh: apt-get install $packages"
    install "$packages"
    lacking=$(missing)
    [[ -z $lacking ]] || die "the packages have not brought $(cut -d '|' -f 1 <<<"$lacking" | paste -s -d ' ' -)"
}

install() {
    local packages service
    as_root apt-get update -qq
    read -ra packages <<<"$(with_client "$1")"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${packages[@]}"
    # Tests start servers of their own. Only the Docker daemon stays.
    for service in redis-server postgresql mariadb-server prometheus prometheus-alertmanager; do
        if [[ " $1 " == *" $service "* ]]; then
            as_root service "${service/mariadb-server/mariadb}" stop || echo "setup.sh: $service has started no service"
        fi
    done
}

case ${1:-} in
    '') setup ;;
    left-out)
        lines=$(left_out)
        [[ -n $lines ]] || exit 0
        [[ ${CI:-} != true ]] || die "CI=true, but this would be left out:"$'\n'"$lines"
        echo "$lines"
        ;;
    has) has "$2" ;;
    list) list ;;
    *) die "usage: ${0##*/} [left-out | has NAME | list]" ;;
esac
