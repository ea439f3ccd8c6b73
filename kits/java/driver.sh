#!/bin/sh
# Compiles the driver if a source is newer, and runs it.
set -e
cd "$(dirname "$0")"
build=../../node_modules/.cache/kits/java
mkdir -p "$build"
jars=/usr/share/java
classpath="$build:$jars/gson.jar:$jars/okhttp.jar:$jars/okio.jar"
if [ -z "$(find "$build/done" -newer Envelope.java -newer Exchange.java -newer EnvelopeHttpClient.java \
  -newer EnvelopeInterceptor.java -newer Driver.java -newer Test.java 2>/dev/null)" ]; then
  javac -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -Xlint:all,-processing -Werror --release 17 -encoding UTF-8 -cp "$classpath" -d "$build" ./*.java >&2
  touch "$build/done"
fi
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classpath" envelope.Driver
