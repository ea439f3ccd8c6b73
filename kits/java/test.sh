#!/bin/sh
# Runs the kit's tests and, if there is a sidecar at $BASE, the example in README.md in every state of a rotation.
set -e
cd "$(dirname "$0")"
build=../../node_modules/.cache/kits/java
./driver.sh </dev/null
java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$build" envelope.Test
if [ -n "$BASE" ]; then
  . ../end-to-end/examples.sh
  example=../../node_modules/.cache/kits/java-readme
  mkdir -p "$example"
  sed -n '/^```java run$/,/^```$/p' README.md | sed '1d;$d' >"$example/Readme.java"
  # Compiled once, because `java Readme.java` would compile it again in each state.
  javac -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -cp "$build" -d "$example" "$example/Readme.java"
  example() {
    java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$build:$example" Readme
  }
  in_every_state "$example/readme.txt"
fi
