// Confluent's JavaScript client against a registry: node schemaregistry_story.js URL SUBJECT
const {
  SchemaRegistryClient, AvroSerializer, AvroDeserializer, JsonSerializer, JsonDeserializer, SerdeType,
} = require('@confluentinc/schemaregistry')

const [url, topic] = process.argv.slice(2)

async function main() {
  const client = new SchemaRegistryClient({ baseURLs: [url] })
  const story = {}
  const avro = JSON.stringify({ type: 'record', name: 'User', fields: [{ name: 'name', type: 'string' }] })
  const info = { schemaType: 'AVRO', schema: avro }
  story.id = await client.register(`${topic}-value`, info)
  story.again = await client.register(`${topic}-value`, info)
  story.byId = (await client.getBySubjectAndId(`${topic}-value`, story.id)).schema
  story.latest = (await client.getLatestSchemaMetadata(`${topic}-value`)).version
  story.versions = await client.getAllVersions(`${topic}-value`)
  story.subjects = await client.getAllSubjects()
  story.compatible = await client.testSubjectCompatibility(`${topic}-value`, info)
  await client.updateCompatibility(`${topic}-value`, 'FULL')
  story.level = await client.getCompatibility(`${topic}-value`)
  const avroOut = new AvroSerializer(client, SerdeType.VALUE, { autoRegisterSchemas: false, useLatestVersion: true })
  const avroIn = new AvroDeserializer(client, SerdeType.VALUE, {})
  story.avro = await avroIn.deserialize(topic, await avroOut.serialize(topic, { name: 'anna' }))
  const json = JSON.stringify({ type: 'object', properties: { name: { type: 'string' } } })
  await client.register(`${topic}-json-value`, { schemaType: 'JSON', schema: json })
  const jsonOut = new JsonSerializer(client, SerdeType.VALUE, { autoRegisterSchemas: false, useLatestVersion: true })
  const jsonIn = new JsonDeserializer(client, SerdeType.VALUE, {})
  story.json = await jsonIn.deserialize(`${topic}-json`, await jsonOut.serialize(`${topic}-json`, { name: 'anna' }))
  try {
    await client.register(`${topic}-value`, { schemaType: 'AVRO', schema: '"int"' })
  } catch (error) {
    story.refused = [error.status, error.errorCode]
  }
  story.deleted = await client.deleteSubject(`${topic}-value`)
  console.log(JSON.stringify(story))
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1) })
