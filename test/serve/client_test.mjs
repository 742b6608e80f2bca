// The tools of `meshplan serve`, called by the protocol's own client, which checks every answer
// against the tool's output schema.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";
import {Client} from "@modelcontextprotocol/sdk/client/index.js";
import {StdioClientTransport} from "@modelcontextprotocol/sdk/client/stdio.js";

const JOB = {model: "llama-3.1-8b", cluster: "dgx-h100", gpus: 8, "global-batch": 64, "seq-len": "4k"};
let client;

before(async () => {
  client = new Client({name: "test", version: "1"});
  await client.connect(new StdioClientTransport({
    command: process.env.MESHPLAN, args: ["serve", "--stdio"],
    env: {MESHPLAN_DATA: process.env.MESHPLAN_DATA, PATH: process.env.PATH}}));
  await client.listTools();  // from now on answers are checked
});
after(() => client.close());

const call = (name, args) => client.callTool({name, arguments: args});

test("it says who it is and offers the commands as tools", async () => {
  assert.equal(client.getServerVersion().name, "meshplan");
  const {tools} = await client.listTools();
  assert.deepEqual(tools.map(tool => tool.name), ["plan", "estimate", "explain", "import", "lint", "list"]);
  for (const tool of tools) {
    assert.ok(tool.description);
    assert.ok(!("json" in tool.inputSchema.properties));
    assert.ok("files" in tool.inputSchema.properties);
  }
});

test("a plan, its estimate and why not another one", async () => {
  const plan = await call("plan", {...JOB, top: 1, fix: "pp=1,cp=1"});
  assert.ok(!plan.isError, plan.content[0].text);
  const best = plan.structuredContent.plans[0];
  assert.deepEqual(JSON.parse(plan.content[0].text), plan.structuredContent);
  const estimate = await call("estimate", {...JOB, strategy: "tp=2"});
  assert.ok(estimate.structuredContent.plan.step_time_s >= best.step_time_s);
  const why = await call("explain", {...JOB, strategy: "tp=8"});
  assert.ok(!why.isError, why.content[0].text);
});

test("no plan fits: an answer with the nearest miss", async () => {
  const plan = await call("plan", {...JOB, model: "llama-3.1-405b"});
  assert.ok(!plan.isError, plan.content[0].text);
  assert.deepEqual(plan.structuredContent.plans, []);
});

test("files come with the call", async () => {
  const script = "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 " +
    "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 " +
    "--global-batch-size 8\n";
  const run = await call("import", {kind: "megatron-args", file: ["train.sh"], files: {"train.sh": script}});
  assert.ok(!run.isError, run.content[0].text);
  assert.equal(run.structuredContent.target, "megatron");
  assert.equal(run.structuredContent.world_size, 8);
  const found = await call("lint", {file: ["jobs/train.sh"], files: {"jobs/train.sh": script}});
  assert.ok(!found.isError, found.content[0].text);
});

test("what is wrong is said in words", async () => {
  const model = await call("plan", {...JOB, model: "llama-9"});
  assert.ok(model.isError);
  assert.match(model.content[0].text, /llama-9/);
  const word = await call("plan", {...JOB, "glbal-batch": 1});
  assert.ok(word.isError);
  assert.match(word.content[0].text, /global-batch/);
});

test("calls run beside each other and can be cancelled", async () => {
  const stop = new AbortController();
  const long = client.callTool({name: "plan", arguments: {model: "deepseek-v3", cluster: "dgx-h100",
    gpus: 2048, "global-batch": 15360, "seq-len": 4096, space: "full"}}, undefined, {signal: stop.signal});
  const models = await call("list", {kind: "models"});
  assert.ok(models.structuredContent.models.length > 10);
  stop.abort();
  await assert.rejects(long);
  await client.ping();
});
