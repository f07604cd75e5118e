// A reader with mqtt.js: node reader.js PACKAGE URL NAME TOPIC QOS [KEY VALUE ...]
// Prints each payload on a line; lines that begin with # say what it did. A line `TOPIC QOS PAYLOAD` is published.
const [packagePath, url, name, topic, qos, ...pairs] = process.argv.slice(2);
const mqtt = require(packagePath);
const wanted = {};
for (let at = 0; at < pairs.length; at += 2) wanted[pairs[at]] = pairs[at + 1];
const options = JSON.parse(process.env.MQTT_OPTIONS || "{}");
const client = mqtt.connect(url, {
  protocolVersion: 5,
  clientId: name,
  clean: false,
  reconnectPeriod: 300,
  resubscribe: false,
  rejectUnauthorized: false,
  ...options,
  properties: { sessionExpiryInterval: 3600, ...options.properties },
});
let asked = false;
client.on("connect", (connack) => {
  console.log(`#connected ${connack.sessionPresent}`);
  if (asked) return;
  asked = true;
  const properties = pairs.length ? { userProperties: wanted } : {};
  client.subscribe(topic, { qos: Number(qos), properties }, (problem) => {
    console.log(problem ? `#refused ${problem.message}` : "#subscribed");
  });
});
client.on("message", (from, payload) => console.log(options.showTopics ? `${from} ${payload}` : payload.toString()));
client.on("error", (problem) => console.log(`#error ${problem.message}`));
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const [to, level, ...rest] = line.split(" ");
  client.publish(to, rest.join(" "), { qos: Number(level) }, (problem) => {
    console.log(problem ? `#failed ${to} ${problem.message}` : `#published ${to}`);
  });
});
