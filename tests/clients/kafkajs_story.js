// What kafkajs does without consumer groups: admin, producing with keys, headers and compression, reading offsets.
const { Kafka, CompressionTypes, logLevel } = require('kafkajs');

const [servers, topic] = process.argv.slice(2);
const kafka = new Kafka({ clientId: 'story', brokers: [servers], logLevel: logLevel.ERROR });

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  const created = await admin.createTopics({
    topics: [{ topic, numPartitions: 2, configEntries: [{ name: 'retention.ms', value: '123456' }] }],
  });
  const again = await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] });
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  const offsets = [];
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    const answers = await producer.send({
      topic,
      compression,
      acks: -1,
      messages: Array.from({ length: 50 }, (_, number) => ({
        partition: 1,
        key: `key-${number}`,
        value: `value-${number}`,
        headers: { number: `${number}` },
        timestamp: `${1700000000000 + number}`,
      })),
    });
    offsets.push(answers[0].baseOffset);
  }
  await producer.disconnect();
  const configs = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }],
  });
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, 1700000000020);
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 1, offset: '10' }] });
  const ends = await admin.fetchTopicOffsets(topic);
  const cluster = await admin.describeCluster();
  await admin.disconnect();
  console.log(JSON.stringify({
    created,
    again,
    offsets,
    retention: configs.resources[0].configEntries[0].configValue,
    partitions: metadata.topics[0].partitions.length,
    byTime: byTime.find((item) => item.partition === 1).offset,
    ends: ends.find((item) => item.partition === 1),
    brokers: cluster.brokers.length,
  }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
