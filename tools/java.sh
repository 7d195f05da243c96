#!/usr/bin/env bash
# Java 17 serves the pipelines and the tests against Apache Kafka. The node itself does not need it.
set -u
if command -v java >/dev/null 2>&1; then
  major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${major:-0}" -ge 17 ] && exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Java 17 and Maven ..."
  (apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless maven) >/dev/null 2>&1 && exit 0
fi
echo "Java 17 is missing: tests that compare with Apache Kafka are skipped. Install a Java 17 runtime to run them."
exit 1
