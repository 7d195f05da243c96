// Two kafkajs consumers share a group; one leaves, the other goes on; the group is described and its offsets are read.
const { Kafka, logLevel } = require('kafkajs');

const [servers, topic, groupId] = process.argv.slice(2);
const kafka = new Kafka({ clientId: 'story', brokers: [servers], logLevel: logLevel.ERROR });
const seen = [[], []];
const read = new Set();
let inOrder = true;

// A consumer goes up in a partition; one that gets it again may begin anew, but never behind what nobody has read.
function note(number, partition, offset) {
  if (offset > 0 && !read.has(`${partition}:${offset - 1}`)) inOrder = false;
  read.add(`${partition}:${offset}`);
  seen[number].push(`${partition}:${offset}`);
}

async function until(condition) {
  const limit = Date.now() + 30000;
  while (!condition()) {
    if (Date.now() > limit) throw new Error(`waited in vain: ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function consumer(number) {
  const made = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 200 });
  const joined = new Promise((resolve) => made.on(made.events.GROUP_JOIN, ({ payload }) => resolve(payload)));
  await made.connect();
  await made.subscribe({ topics: [topic], fromBeginning: true });
  await made.run({ eachMessage: async ({ partition, message }) => note(number, partition, Number(message.offset)) });
  await joined;
  return made;
}

async function main() {
  const producer = kafka.producer();
  await producer.connect();
  const send = (from, to) => producer.send({
    topic,
    messages: Array.from({ length: to - from }, (_, n) => ({ partition: (from + n) % 4, value: `value-${from + n}` })),
  });
  await send(0, 100);
  const first = await consumer(0);
  await until(() => seen[0].length >= 100);
  let size = 0;
  first.on(first.events.GROUP_JOIN, ({ payload }) => { size = payload.memberAssignment[topic].length; });
  const second = await consumer(1);
  await until(() => size === 2);
  await send(100, 200);
  await until(() => seen[0].length + seen[1].length >= 200);
  const admin = kafka.admin();
  await admin.connect();
  const described = await admin.describeGroups([groupId]);
  await second.disconnect();
  await send(200, 300);
  await until(() => new Set([...seen[0], ...seen[1]]).size >= 300);
  await first.disconnect();
  const offsets = await admin.fetchOffsets({ groupId, topics: [topic] });
  const listed = await admin.listGroups();
  await admin.deleteGroups([groupId]);
  const left = await admin.listGroups();
  await producer.disconnect();
  await admin.disconnect();
  console.log(JSON.stringify({
    all: new Set([...seen[0], ...seen[1]]).size,
    inOrder,
    shared: seen[1].length > 0,
    members: described.groups[0].members.length,
    state: described.groups[0].state,
    offsets: offsets[0].partitions.map((each) => each.offset).sort(),
    listed: listed.groups.some((each) => each.groupId === groupId),
    left: left.groups.some((each) => each.groupId === groupId),
  }));
}

main().catch((error) => { console.error(error); process.exit(1); });
