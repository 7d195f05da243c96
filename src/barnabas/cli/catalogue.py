"""Every tool: the module that holds it, and the names it answers to.

The names are those of `barnabas <name>`; Kafka's script is the same with `kafka-` before it, with or without `.sh`.
`run-class` finds a tool by the name of the Java class that Kafka has for it, today's or that of older courses.
Nothing here imports a tool: that happens when it is called.
"""

from __future__ import annotations

KAFKA_TOOLS = {
    "acls": "Add, remove and list access control lists.",
    "broker-api-versions": "List the APIs and versions each broker offers.",
    "client-metrics": "Manage the clients' metrics subscriptions.",
    "cluster": "The cluster's id and endpoints; unregister a broker.",
    "configs": "Describe and change the configuration of topics, brokers, groups, users, clients and addresses.",
    "console-consumer": "Print the records of topics.",
    "console-producer": "Send each line of stdin as a record.",
    "console-share-consumer": "Print the records of a topic as a member of a share group.",
    "consumer-groups": "List, describe, delete and reset consumer groups.",
    "consumer-perf-test": "Measure how fast records can be consumed.",
    "delegation-tokens": "Create, renew, expire and describe delegation tokens.",
    "delete-records": "Delete the records of partitions below given offsets.",
    "dump-log": "Print what the files of a log hold.",
    "e2e-latency": "Measure the time from a producer to a consumer, record by record.",
    "features": "Describe, upgrade and downgrade the cluster's features.",
    "get-offsets": "Print the offsets of partitions at a point in time.",
    "groups": "List groups of every type.",
    "leader-election": "Elect leaders of partitions.",
    "log-dirs": "Describe the brokers' log directories.",
    "metadata-quorum": "Describe and change the metadata quorum.",
    "producer-perf-test": "Measure how fast records can be produced.",
    "reassign-partitions": "Move replicas of partitions between brokers and directories.",
    "run-class": "Run the tool of a Java class's name.",
    "server-start": "Start a node from Kafka's server.properties.",
    "server-stop": "Stop the nodes of this machine.",
    "share-consumer-perf-test": "Measure how fast the members of a share group consume.",
    "share-groups": "List, describe, delete and reset share groups.",
    "storage": "Format log directories and tell about them.",
    "streams-application-reset": "Reset the topics and offsets of a streams application.",
    "streams-groups": "List, describe, delete and reset streams groups.",
    "topics": "Create, list, describe, alter and delete topics.",
    "transactions": "List, describe and abort transactions.",
    "verifiable-consumer": "Consume and print events as JSON, for tests.",
    "verifiable-producer": "Produce numbers and print events as JSON, for tests.",
    "verifiable-share-consumer": "Consume as a member of a share group and print events as JSON, for tests.",
    "zookeeper-server-start": "Say that none is needed.",
}

# Tools that come with Confluent's services, under names that begin with "kafka-" too.
CONFLUENT_TOOLS = {
    "avro-console-consumer": "Print the records of topics, read with their Avro schemas.",
    "avro-console-producer": "Send each line of JSON as a record under an Avro schema.",
    "json-schema-console-consumer": "Print the records of topics, read with their JSON schemas.",
    "json-schema-console-producer": "Send each line of JSON as a record under a JSON schema.",
    "protobuf-console-consumer": "Print the records of topics, read with their Protobuf schemas.",
    "protobuf-console-producer": "Send each line of JSON as a record under a Protobuf schema.",
    "rest-start": "Start the REST proxy from Confluent's properties.",
}

OWN_TOOLS = {
    "acl": "Explain why somebody may do something, or may not.",
    "certs": "Make certificates for brokers and clients, in all formats.",
    "completion": "Print the completion script of a shell.",
    "connect-distributed": "Start a Connect worker of a group.",
    "connect-standalone": "Start a Connect worker with connectors from files.",
    "consume": "Records to stdout, as text or JSON.",
    "ksql": "Type SQL statements, or run those of a file.",
    "ksql-datagen": "Write made-up records to a topic, of a quickstart or of an Avro schema.",
    "ksql-server-start": "Start the SQL server from ksqlDB's properties.",
    "ksql-test-runner": "Test SQL statements without broker and without Spark.",
    "lag": "How far groups are behind.",
    "pipeline": "Run files of streaming queries on Spark, and tell of them.",
    "produce": "Records from stdin, as text or JSON.",
    "quorum": "Watch the quorum of controllers live.",
    "schema": "Check a schema against the records of a topic.",
    "schema-registry-start": "Start the schema registry from Confluent's properties.",
    "tail": "Watch a topic live.",
    "top": "Watch the rates of topics, partitions and groups live.",
}

TOOLS = KAFKA_TOOLS | CONFLUENT_TOOLS | OWN_TOOLS

# Scripts whose names do not begin with "kafka-".
SCRIPT_NAMES = {
    "connect-distributed": "connect-distributed",
    "connect-standalone": "connect-standalone",
    "ksql": "ksql",
    "ksql-datagen": "ksql-datagen",
    "ksql-server-start": "ksql-server-start",
    "ksql-test-runner": "ksql-test-runner",
    "run-ksql-test": "ksql-test-runner",
    "schema-registry-start": "schema-registry-start",
    "zookeeper-server-start": "zookeeper-server-start",
}

CLASSES = {
    "AclCommand": "acls",
    "BrokerApiVersionsCommand": "broker-api-versions",
    "ClientMetricsCommand": "client-metrics",
    "ClusterTool": "cluster",
    "ConfigCommand": "configs",
    "ConnectDistributed": "connect-distributed",
    "ConnectStandalone": "connect-standalone",
    "ConsoleConsumer": "console-consumer",
    "ConsoleProducer": "console-producer",
    "ConsoleShareConsumer": "console-share-consumer",
    "ConsumerGroupCommand": "consumer-groups",
    "ConsumerPerformance": "consumer-perf-test",
    "DelegationTokenCommand": "delegation-tokens",
    "DeleteRecordsCommand": "delete-records",
    "DumpLogSegments": "dump-log",
    "EndToEndLatency": "e2e-latency",
    "FeatureCommand": "features",
    "GetOffsetShell": "get-offsets",
    "GroupsCommand": "groups",
    "LeaderElectionCommand": "leader-election",
    "LogDirsCommand": "log-dirs",
    "MetadataQuorumCommand": "metadata-quorum",
    "ProducerPerformance": "producer-perf-test",
    "ReassignPartitionsCommand": "reassign-partitions",
    "ShareConsumerPerformance": "share-consumer-perf-test",
    "ShareGroupCommand": "share-groups",
    "StorageTool": "storage",
    "StreamsGroupCommand": "streams-groups",
    "StreamsResetter": "streams-application-reset",
    "TopicCommand": "topics",
    "TransactionsCommand": "transactions",
    "VerifiableConsumer": "verifiable-consumer",
    "VerifiableProducer": "verifiable-producer",
    "VerifiableShareConsumer": "verifiable-share-consumer",
    "Kafka": "server-start",
    "QuorumPeerMain": "zookeeper-server-start",
}


def module_of(tool: str) -> str:
    return f"barnabas.cli.tools.{tool.replace('-', '_')}"


def tool_of_script(name: str) -> str | None:
    """`/usr/bin/kafka-topics.sh` is topics."""
    name = name.rpartition("/")[2].removesuffix(".sh")
    tool = SCRIPT_NAMES.get(name, name.removeprefix("kafka-"))
    return tool if tool in TOOLS else None


def scripts() -> list[str]:
    """The names under which the tools are installed."""
    names = [f"kafka-{tool}" for tool in KAFKA_TOOLS | CONFLUENT_TOOLS if tool != "zookeeper-server-start"]
    return sorted(script for name in [*names, *SCRIPT_NAMES] for script in (name, f"{name}.sh"))
