#!/bin/sh
# Runs the kit's tests and, if there is a sidecar at $BASE, the example in README.md in every state of a rotation.
set -e
cd "$(dirname "$0")"
ruby -w test.rb
gem build --silent --output /dev/null envelope-sidecar-kit.gemspec
if [ -n "$BASE" ]; then
  . ../end-to-end/examples.sh
  cache=../../node_modules/.cache/kits/ruby
  mkdir -p "$cache"
  sed -n '/^```ruby run$/,/^```$/p' README.md | sed '1d;$d' >"$cache/readme.rb"
  example() {
    ruby -I . "$cache/readme.rb"
  }
  in_every_state "$cache/readme.txt"
fi
