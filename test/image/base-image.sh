#!/usr/bin/env bash
# Prints the name of the image that the tests build on: the Dockerfile's own base, or, if it cannot be pulled, one made
# here of Debian, the project's Node, this machine's npm and the CAs it trusts. The latter requires root on Debian.
set -euo pipefail
cd "$(dirname "$0")/../.."

has() { docker image inspect "$1" >/dev/null 2>&1; }

image=$(sed -n 's/^ARG BASE_IMAGE=//p' Dockerfile)
node=node_modules/node/bin/node
made="envelope-sidecar-test/base:$("$node" --version)"

if has "$made"; then
  image=$made
elif ! has "$image" && ! docker pull --quiet "$image" >/dev/null 2>&1; then
  image=$made
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  chmod 755 "$root"
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,libatomic1,libstdc++6 bookworm "$root/base" >&2
  npm=$(readlink -f "$(command -v npm)")
  mkdir -p "$root/base/usr/local/lib/node_modules"
  cp "$node" "$root/base/usr/local/bin/node"
  cp -R "${npm%/bin/*}" "$root/base/usr/local/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/base/usr/local/bin/npm"
  cp /etc/ssl/certs/ca-certificates.crt "$root/base/etc/ssl/certs/ca-certificates.crt"
  tar --directory "$root/base" --create . |
    docker import --change 'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt' - "$image" >/dev/null
fi
echo "$image"
