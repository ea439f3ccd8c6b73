#!/usr/bin/env bash
# Makes an image that stands in for node:26-bookworm-slim where no image can be pulled: Debian, the project's own Node,
# this machine's npm and the CAs that this machine trusts. As root, on Debian. Prints the image's name.
set -euo pipefail
cd "$(dirname "$0")/../.."

node=node_modules/node/bin/node
image="envelope-sidecar-test/base:$("$node" --version)"

if ! docker image inspect "$image" >/dev/null 2>&1; then
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
