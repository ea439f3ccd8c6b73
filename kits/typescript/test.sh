#!/bin/sh
# Runs the kit's tests, those of the compiled package and, if there is a sidecar at $BASE, the example in README.md in every state of a rotation.
set -e
cd "$(dirname "$0")"
cache=../../node_modules/.cache/kits/typescript
node --test test.ts
node ../../node_modules/@typescript/native/bin/tsc -p tsconfig.json --outDir "$cache"
echo '{"type":"module"}' >"$cache/package.json"
node -e "import('$PWD/$cache/envelope.js').then(({ selftest }) => process.exit(selftest() === 8 ? 0 : 1))"
npm pack --dry-run --ignore-scripts --silent >/dev/null
if [ -n "$BASE" ]; then
  . ../end-to-end/examples.sh
  sed -n '/^```ts run$/,/^```$/p' README.md | sed '1d;$d' | sed "s#\.ts';#.js';#" >"$cache/readme.js"
  example() {
    node "$cache/readme.js"
  }
  in_every_state "$cache/readme.txt"
fi
