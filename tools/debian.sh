#!/usr/bin/env bash
# Makes a Docker image of a bare Debian or Ubuntu with some packages, unless it is here:
#
#   debian.sh IMAGE SUITE COMPONENT,... PACKAGE,...
#
# It needs debootstrap, which needs root, and Docker.
set -euo pipefail
image=$1 suite=$2 components=$3 packages=$4
as_root=()
((EUID == 0)) || as_root=(sudo)

! docker image inspect "$image" >/dev/null 2>&1 || exit 0
work=$(mktemp -d)
trap '"${as_root[@]}" rm -rf "$work"' EXIT
"${as_root[@]}" debootstrap --variant=minbase --components="$components" --include="$packages" "$suite" "$work/root" >"$work/log" ||
    { tail "$work/log" >&2; exit 1; }
"${as_root[@]}" tar -C "$work/root" -c . | docker import - "$image" >/dev/null
