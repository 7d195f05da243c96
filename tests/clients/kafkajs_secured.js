// Logs in by SCRAM within TLS and tells the topics it may see.
const fs = require('fs');
const { Kafka, logLevel } = require('kafkajs');

const [servers, authority, username, password] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: 'secured',
  brokers: [servers],
  ssl: { ca: [fs.readFileSync(authority, 'utf-8')] },
  sasl: { mechanism: 'scram-sha-512', username, password },
  logLevel: logLevel.NOTHING,
  retry: { retries: 0 },
});

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  console.log(JSON.stringify(await admin.listTopics()));
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
