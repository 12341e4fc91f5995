// The published JavaScript clients of Azure Personalizer against a running service, unchanged.
// node clients.cjs ENDPOINT KEY: prints what came of it as one line of JSON, or fails.
const assert = require("node:assert");
const createClient = require("@azure-rest/ai-personalizer").default;
const { isUnexpected } = require("@azure-rest/ai-personalizer");
const { PersonalizerClient } = require("@azure/cognitiveservices-personalizer");
const { ApiKeyCredentials } = require("@azure/ms-rest-js");

const actions = ["News", "Sports", "Entertainment"].map((id) => ({
  id,
  features: [{ topic: id.toLowerCase(), length: id.length }],
}));
const contextFeatures = [{ device: "mobile", hour: 18 }, { _user: "ann" }];

async function rest(endpoint, key) {
  const client = createClient(endpoint, { key }, { allowInsecureConnection: true });
  const ask = async (method, path, body, params) => {
    const called = client.path(path, ...(params ?? []));
    const answer = await called[method](body === undefined ? undefined : { body });
    // isUnexpected of this client knows no path with a parameter below a prefix, and the prefix is its own.
    assert(/^2/.test(answer.status), `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer;
  };
  const rank = { contextFeatures, actions, excludedActions: ["Sports"], eventId: "rest-1", deferActivation: true };
  const ranked = (await ask("post", "/rank", rank)).body;
  assert.strictEqual(ranked.eventId, "rest-1");
  assert.strictEqual(ranked.ranking.length, 3);
  assert.deepStrictEqual(ranked.ranking[1], { id: "Sports", probability: 0 });
  assert(Math.abs(ranked.ranking.reduce((sum, one) => sum + one.probability, 0) - 1) < 1e-9);
  await ask("post", "/events/{eventId}/activate", undefined, ["rest-1"]);
  await ask("post", "/events/{eventId}/reward", { value: 1.0 }, ["rest-1"]);

  const slots = [
    { id: "top", features: [{ size: "large" }], baselineAction: "News" },
    { id: "side", features: [{ size: "small" }], excludedActions: ["News"], baselineAction: "Sports" },
  ];
  const multi = (await ask("post", "/multislot/rank", { contextFeatures, actions, slots, eventId: "rest-2", deferActivation: true })).body;
  assert.deepStrictEqual(multi.slots.map((slot) => slot.id), ["top", "side"]);
  assert.notStrictEqual(multi.slots[0].rewardActionId, multi.slots[1].rewardActionId);
  await ask("post", "/multislot/events/{eventId}/activate", undefined, ["rest-2"]);
  await ask("post", "/multislot/events/{eventId}/reward", { reward: [{ slotId: "side", value: 0.5 }] }, ["rest-2"]);

  const configuration = (await ask("get", "/configurations/service")).body;
  configuration.explorationPercentage = 0.3;
  assert.strictEqual((await ask("put", "/configurations/service", configuration)).body.explorationPercentage, 0.3);
  assert((await ask("get", "/configurations/policy")).body.arguments);
  assert((await ask("get", "/logs/properties")).body.dateRange.from);
  assert((await ask("get", "/model/properties")).body.creationTime);
  const refused = await client.path("/rank").post({ body: { actions: [] } });
  assert(isUnexpected(refused) && refused.status === "400");
  assert.strictEqual(refused.body.error.code, "InvalidRankRequest");
  return ranked.rewardActionId;
}

async function old(endpoint, key) {
  const credentials = new ApiKeyCredentials({ inHeader: { "Ocp-Apim-Subscription-Key": key } });
  const client = new PersonalizerClient(credentials, endpoint);
  const ranked = await client.rank({ contextFeatures, actions, excludedActions: ["News"], eventId: "old-js", deferActivation: true });
  assert.strictEqual(ranked._response.status, 201);
  assert.strictEqual(ranked.ranking[0].probability, 0);
  await client.events.activate("old-js");
  await client.events.reward("old-js", { value: 0.25 });
  await assert.rejects(client.events.reward("old-js", { value: 7 }), /number from -1 to 1/);
  return ranked.rewardActionId;
}

const [endpoint, key] = process.argv.slice(2);
Promise.all([rest(endpoint, key), old(endpoint, key)]).then(
  (shown) => console.log(JSON.stringify(shown)),
  (why) => {
    console.error(why);
    process.exit(1);
  },
);
