#!/bin/sh
# The kit's own tests, and the example in README.md if there is a sidecar at $BASE.
set -e
cd "$(dirname "$0")"
build=../../node_modules/.cache/kits/java
./driver.sh </dev/null
java -cp "$build" envelope.Test
if [ -n "$BASE" ]; then
  example=../../node_modules/.cache/kits/java-readme
  mkdir -p "$example"
  sed -n '/^```java run$/,/^```$/p' README.md | sed '1d;$d' >"$example/Readme.java"
  java -cp "$build" "$example/Readme.java" | grep -q txn_
fi
