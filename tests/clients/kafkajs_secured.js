// Logs in by each mechanism that it is told of, within TLS, and tells the topics it may see, or why it did not get in.
const fs = require('fs');
const { Kafka, logLevel } = require('kafkajs');

const [servers, authority, username, password, mechanisms, token] = process.argv.slice(2);

async function topicsBy(mechanism) {
  const sasl =
    mechanism === 'oauthbearer'
      ? { mechanism, oauthBearerProvider: async () => ({ value: token }) }
      : { mechanism, username, password };
  const kafka = new Kafka({
    clientId: 'secured',
    brokers: [servers],
    ssl: { ca: [fs.readFileSync(authority, 'utf-8')] },
    sasl,
    logLevel: logLevel.NOTHING,
    retry: { retries: 0 },
  });
  const admin = kafka.admin();
  try {
    await admin.connect();
    return await admin.listTopics();
  } catch (error) {
    return error.name;
  } finally {
    await admin.disconnect();
  }
}

async function main() {
  const told = {};
  for (const mechanism of mechanisms.split(',')) told[mechanism] = await topicsBy(mechanism);
  console.log(JSON.stringify(told));
}

main();
