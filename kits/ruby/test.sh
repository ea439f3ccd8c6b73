#!/bin/sh
# The kit's own tests, and the example in README.md if there is a sidecar at $BASE.
set -e
cd "$(dirname "$0")"
ruby -w test.rb
gem build --silent --output /dev/null envelope-sidecar-kit.gemspec
if [ -n "$BASE" ]; then
  sed -n '/^```ruby run$/,/^```$/p' README.md | sed '1d;$d' | ruby -I . - | grep -q txn_
fi
