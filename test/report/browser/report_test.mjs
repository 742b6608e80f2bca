import assert from "node:assert/strict";
import {after, before, describe, it} from "node:test";
import {readFileSync, statSync} from "node:fs";
import {cleanUp, embedded, estimated, launch, open, pipelined, planned, report, withResult} from "./support.mjs";

let browser, result, decisions, html;
before(async () => {
  browser = await launch();
  result = pipelined();
  decisions = result.plans.filter((p) => p.group === p.rank);
  html = report(result);
});
after(async () => {
  await browser?.close();
  cleanUp();
});

// What a study says of a plan.
const brief = {strategy_text: "pp=4,dp=16,global_batch=256,seq_len=4096", gpus: 64, step_time_s: 1.5, tokens_per_s: 1e5, mfu: 0.4, peak_bytes: 6e10, headroom_bytes: 2e10};
const clean = (page) => assert.deepEqual(page.problems, []);
const sum = (list) => list.reduce((a, b) => a + b, 0);

describe("the file", () => {
  it("holds the result unchanged and stays small", () => {
    assert.deepEqual(embedded(html), result);
    assert.ok(statSync(html).size < 2e6);
  });

  it("refers to nothing outside itself", () => {
    const markup = readFileSync(html, "utf8").replace(/<script[^]*?<\/script>/g, "").replace(/<pre>[^]*?<\/pre>/g, "");
    assert.doesNotMatch(markup, /(?:src|href)="(?!#)/);
    assert.doesNotMatch(markup, /url\(/);
  });

  for (const [width, colorScheme] of [[1400, "light"], [1400, "dark"], [400, "light"], [400, "dark"]]) {
    it(`opens without errors and fits ${width} pixels, ${colorScheme}`, async () => {
      const page = await open(browser, html, {viewport: {width, height: 900}, colorScheme});
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width);
      const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
      const light = sum(background.match(/\d+/g).slice(0, 3).map(Number)) > 384;
      assert.equal(light, colorScheme === "light");
      clean(page);
      await page.close();
    });
  }

  it("forbids the network and scripts that are not its own", async () => {
    const page = await open(browser, html);
    const outcome = await page.evaluate(async () => {
      const script = document.createElement("script");
      script.textContent = "window.intruder = true";
      document.body.append(script);
      const fetched = await fetch("http://127.0.0.1:9/").then(() => "fetched", () => "refused");
      return [fetched, window.intruder === true];
    });
    assert.deepEqual(outcome, ["refused", false]);
    assert.ok(page.problems.some((text) => /Content Security Policy/.test(text)));
    await page.close();
  });

  it("prints", async () => {
    const page = await open(browser, html, {colorScheme: "dark"});
    const pdf = await page.pdf({format: "A4"});
    assert.ok(pdf.length > 20000);
    clean(page);
    await page.close();
  });
});

describe("the answer", () => {
  it("stands first: plan, time, memory, why", async () => {
    const page = await open(browser, html);
    const plan = result.plans[0];
    const text = await page.innerText(".answer");
    for (const part of [`tp${plan.strategy.tp}`, `pp${plan.strategy.pp}`, plan.strategy_text, "MFU", "causal attention counted half",
      "GiB"]) {
      assert.ok(text.includes(part), part);
    }
    const why = await page.locator(".why li").allTextContents();
    // Numbers keep beside their units.
    assert.deepEqual(why.map((line) => line.replace(/\u00a0/g, " ")), result.explanation);
    await page.close();
  });
});

describe("the plans beside the best one", () => {
  it("are named with their price where there are such", async () => {
    const other = {...result, runnable: {space: "megatron", proof: "exact", plan: brief, slowdown: 1.0002},
      safer: {risk: 0.1, proof: "exact", plan: brief, slowdown: 1.034, out_of_memory_probability: 0.04},
      fastest: {space: "megatron", memory_risk: 1, proof: "exact", plan: brief, slowdown: 0.9, out_of_memory_probability: 0.3},
      unbuilt: {space: "full", memory_risk: 0.1, proof: "exact"}};
    const page = await open(browser, report(other));
    const texts = await page.locator(".alternative").allInnerTexts();
    assert.equal(texts.length, 4);
    assert.match(texts[0], /With more risk: 1\.50 s a step, 10\.0 % faster, 30 % likely to run out of memory/);
    assert.equal(texts[1], "What no framework has built yet: nothing faster.");
    assert.match(texts[2], /--space megatron: 1\.50 s a step, no slower\./);
    assert.match(texts[3], /at most 10 % likely to run out of memory: 1\.50 s a step, 3\.4 % slower\./);
    for (const text of [texts[0], texts[2], texts[3]]) assert.ok(text.replace(/\u200b/g, "").includes(brief.strategy_text));
    clean(page);
    await page.close();
  });

  it("are said to be missing where none fits", async () => {
    const page = await open(browser, report({...result, runnable: {space: "deepspeed", proof: "exact"}, safer: undefined, fastest: undefined, unbuilt: undefined}));
    assert.deepEqual(await page.locator(".alternative").allInnerTexts(), ["There is none of --space deepspeed."]);
    await page.close();
  });
});

describe("the charts", () => {
  let page;
  before(async () => { page = await open(browser, html); });
  after(async () => page.close());

  it("show every term of the time, as long as it takes", async () => {
    const parts = await page.$$eval(".strip span", (all) =>
      all.map((s) => [s.dataset.key, Number(s.dataset.value), s.getBoundingClientRect().width]));
    const time = result.plans[0].time;
    const used = Object.entries(time).filter(([, value]) => value > 0);
    assert.deepEqual(Object.fromEntries(parts.map(([key, value]) => [key, value])), Object.fromEntries(used));
    const wide = parts.filter(([, , width]) => width > 10), [, value, width] = wide[0];
    for (const part of wide) assert.ok(Math.abs(part[2] / part[1] / (width / value) - 1) < 0.05, part[0]);
  });

  it("show every term of every rank's memory, as long as it is large", async () => {
    const parts = await page.$$eval("#memory rect", (all) => all.map((r) =>
      [Number(r.dataset.rank), r.dataset.key, Number(r.dataset.value), Number(r.getAttribute("width"))]));
    const {memory} = result.plans[0];
    for (const [rank, key, value] of parts) assert.equal(memory[rank][key], value);
    memory.forEach((m, rank) => assert.equal(sum(parts.filter((p) => p[0] === rank).map((p) => p[2])), m.peak_bytes));
    const scale = parts[0][3] / parts[0][2];
    for (const part of parts) assert.ok(Math.abs(part[3] - part[2] * scale) < 0.01);
  });

  it("list all communication", async () => {
    const rows = await page.$$eval("#communication tbody tr", (all) => all.map((r) => r.cells[1].textContent));
    assert.deepEqual(rows, result.plans[0].communication.map((row) => row.operation));
  });

  it("place every evaluated plan by its time and memory", async () => {
    const all = result.evaluated_plans;
    const points = await page.$$eval("#plans circle", (nodes) => nodes.map((n) =>
      [Number(n.dataset.index), Number(n.getAttribute("cx")), Number(n.getAttribute("cy"))]));
    const crosses = await page.$$eval("#plans path.misfit", (nodes) => nodes.map((n) => Number(n.dataset.index)));
    assert.equal(points.length + crosses.length, all.count);
    for (const index of crosses) assert.equal(all.fits[index], false);
    const quick = points.filter(([i]) => all.step_times_s[i] < 20 * all.step_times_s[0]);
    const [a, b] = [quick[0], quick.reduce((x, y) => Math.abs(y[1] - quick[0][1]) > Math.abs(x[1] - quick[0][1]) ? y : x)];
    const log = ([i]) => Math.log(all.step_times_s[i]);
    for (const p of quick) {
      const x = a[1] + (log(p) - log(a)) / (log(b) - log(a)) * (b[1] - a[1]);
      assert.ok(Math.abs(x - p[1]) < 0.01);
    }
    const low = points.reduce((x, y) => y[2] > x[2] ? y : x), high = points.reduce((x, y) => y[2] < x[2] ? y : x);
    for (const p of points) {
      const y = low[2] + (all.peaks_bytes[p[0]] - all.peaks_bytes[low[0]]) /
        (all.peaks_bytes[high[0]] - all.peaks_bytes[low[0]]) * (high[2] - low[2]);
      assert.ok(Math.abs(y - p[2]) < 0.01);
    }
  });

  it("filter the plans by any key", async () => {
    for (const {key, choices, values} of result.evaluated_plans.keys) {
      const choice = values.at(-1), wanted = values.filter((v) => v === choice).length;
      await page.selectOption(`.filters select[data-key="${key}"]`, choices[choice]);
      assert.equal(await page.locator("#plans .point").count(), wanted, key);
      assert.equal(await page.innerText(".filters output"), `${wanted} of ${values.length} plans`);
      await page.click(".filters button");
    }
    assert.equal(await page.locator("#plans .point").count(), result.evaluated_plans.count);
  });

  it("compare the ranked plans", async () => {
    assert.equal(await page.locator(".compare thead th").count(), Math.min(6, decisions.length));
  });

  it("show a tooltip under the pointer, and hide it on Escape", async () => {
    const bar = page.locator('#memory rect[data-key="activations_bytes"]').first();
    await bar.scrollIntoViewIfNeeded();
    await bar.hover();
    assert.match(await page.innerText(".tip"), /activations\n[\d.]+ GiB/);
    await page.keyboard.press("Escape");
    assert.equal(await page.isVisible(".tip"), false);
  });

  it("go with no error", () => clean(page));
});

describe("the timeline", () => {
  let page, canvas;
  before(async () => {
    page = await open(browser, html);
    canvas = page.locator("canvas.timeline");
    await canvas.scrollIntoViewIfNeeded();
  });
  after(async () => page.close());

  const colour = (x, y) => canvas.evaluate((node, at) => {
    const ratio = node.width / node.clientWidth;
    return [...node.getContext("2d").getImageData(at[0] * ratio, at[1] * ratio, 1, 1).data].slice(0, 3);
  }, [x, y]);
  const wanted = (name) => page.evaluate((n) => {
    const probe = document.createElement("i");
    probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(`--${n}`);
    document.body.append(probe);
    const found = getComputedStyle(probe).color.match(/\d+/g).map(Number);
    probe.remove();
    return found;
  }, name);

  it("draws each rank's tasks where they are", async () => {
    const {timeline} = result;
    const box = await canvas.boundingBox(), ranks = timeline.ranks.length;
    const row = (box.height - 24) / ranks, inner = box.width - 60 - 8;
    const backward = await wanted("t-backward");
    const colours = {F: await wanted("t-forward"), B: backward, I: backward, W: await wanted("t-weight")};
    const x = (us) => 60 + us / 1e6 / timeline.step_time_s * inner;
    let seen = 0;
    for (const [rank, {tasks}] of timeline.ranks.entries()) {
      for (let i = 0; i < tasks.starts_us.length; ++i) {
        const [from, to] = [x(tasks.starts_us[i]), x(tasks.ends_us[i])];
        if (to - from < 4) continue;
        assert.deepEqual(await colour(from + 2, (rank + 0.15) * row), colours[tasks.kinds[i]], `rank ${rank}, task ${i}`);
        if (++seen > 60 * (rank + 1)) break;
      }
    }
    assert.ok(seen > 20, `${seen} tasks are wide enough to look at`);
  });

  it("says what is under the pointer", async () => {
    const {timeline} = result, {tasks} = timeline.ranks[0];
    const box = await canvas.boundingBox();
    const middle = (tasks.starts_us[0] + tasks.ends_us[0]) / 2e6 / timeline.step_time_s;
    await page.mouse.move(box.x + 60 + middle * (box.width - 68), box.y + 6);
    assert.match(await page.innerText(".tip"), /^forward\npipeline rank 0\nmicrobatch 0, chunk 0\n0 s to /);
  });

  it("goes with the keyboard from task to task and from rank to rank", async () => {
    await canvas.focus();
    const live = () => page.innerText("#schedule .live");
    const {tasks} = result.timeline.ranks[0];
    await page.keyboard.press("ArrowRight");
    assert.match(await live(), /^forward, pipeline rank 0, microbatch 0/);
    await page.keyboard.press("ArrowRight");
    assert.match(await live(), new RegExp(`microbatch ${tasks.microbatches[1]}, chunk ${tasks.chunks[1]}`));
    await page.keyboard.press("ArrowDown");
    assert.match(await live(), /pipeline rank 1/);
  });

  it("zooms in by key and by button, and back", async () => {
    const shot = () => canvas.evaluate((node) => node.toDataURL());
    const whole = await shot();
    await page.keyboard.press("+");
    const near = await shot();
    assert.notEqual(near, whole);
    await page.click('#schedule button[aria-label="Zoom in"]');
    assert.notEqual(await shot(), near);
    await page.click('#schedule button:has-text("Whole step")');
    assert.equal(await shot(), whole);
    clean(page);
  });
});

describe("the placement", () => {
  it("shows the group of the GPU that has the focus, along the chosen axis", async () => {
    const page = await open(browser, html);
    const {placement} = result, {axes, shown} = placement;
    for (const {name} of axes) {
      await page.selectOption("#axis", name);
      const first = page.locator(".gpu").first();
      await page.locator("#axis").focus();
      await first.focus();
      const marked = await page.$$eval(".gpu.same", (all) => all.map((n) => Number(n.dataset.rank)));
      const expected = shown.flatMap((node) => node.groups[name].flatMap((group, i) =>
        group === shown[0].groups[name][0] ? [node.first_rank + i] : []));
      assert.deepEqual(marked, expected, name);
      assert.equal(await first.textContent(), String(shown[0].positions[name][0]));
    }
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.evaluate(() => document.activeElement.dataset.rank), "1");
    clean(page);
    await page.close();
  });
});

describe("hostile text", () => {
  it("stays text, wherever it stands", async () => {
    const nasty = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1> \"'&<!--\u2028\n";
    const bad = structuredClone(result);
    bad.model.name = bad.model.spec.name = nasty;
    bad.cluster.name = bad.cluster.spec.name = nasty;
    bad.explanation = [nasty];
    bad.plans[0].warnings = [nasty];
    bad.search.statement = nasty;
    bad.search.infeasible = {[nasty]: 3};
    const page = await open(browser, report(bad));
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.locator("h1").evaluate((n) => n.textContent), `${nasty} on ${nasty}`);
    assert.equal(await page.locator(".why li").evaluate((n) => n.textContent), nasty);
    clean(page);
    await page.close();
  });
});

describe("studies", () => {
  const brief = (gpus, step_time_s) => ({strategy_text: `tp=8,pp=2,dp=${gpus / 16}`, gpus, step_time_s, tokens_per_s: 1e6 / step_time_s,
    mfu: 0.4, peak_bytes: 6e10, headroom_bytes: 2e10, usd_per_step: 0.5, usd_per_billion_tokens: 500});
  const failures = {time_between_failures_s: 36000, checkpoint_bytes: 1e12, checkpoint_time_s: 30, young_interval_s: 1469,
    daly_interval_s: 1450, steps_per_checkpoint: 100, useful_share: 0.93, checkpoint_share: 0.02, lost_share: 0.05, tokens_per_s: 9e5};
  const change = (factor, size) => ({factor, kept: {strategy_text: "tp=8", step_time_s: 3, change: size}, same_choice: true});
  const studies = {
    goodput: {failures_per_gpu_hour: 5e-6, restart_time_s: 600, plans: [failures]},
    sweep: {base_gpus: 16, knee_gpus: 64, sizes: [
      {gpus: 16, proof: "exact", wall_s: 1, plan: brief(16, 8), speedup: 1, efficiency: 1},
      {gpus: 64, proof: "exact", wall_s: 1, plan: brief(64, 2.1), speedup: 3.81, efficiency: 0.952},
      {gpus: 256, proof: "exact", wall_s: 1, plan: brief(256, 0.7), speedup: 11.4, efficiency: 0.714},
      {gpus: 8, proof: "exact", wall_s: 1}]},
    pareto: {resolution_bytes: 1 << 26, proof: "exact", points: [brief(64, 2.1), {...brief(64, 3), peak_bytes: 3e10}]},
    sensitivity: {share: 0.2, rows: [
      {name: "link bandwidth <b>", less: change(0.8, 0.06), more: change(1.2, -0.03)},
      {name: "memory", less: {factor: 0.8, same_choice: false, kept_is_legal: true,
        best: {strategy_text: "tp=8,pp=4", step_time_s: 4, change: 0.12}}, more: change(1.2, 0)}]},
    fallback: {proof: "exact", entries: [
      {nodes_lost: 1, nodes_left: 7, nodes_used: 6, plan: brief(48, 2.9), slowdown: 1.38,
        reshard: {kind: "at-load", keys: ["dp"], how: "resharded when loaded", source: "x"}},
      {nodes_lost: 7, nodes_left: 1}]},
  };

  it("are shown where the result holds them, with their values", async () => {
    const page = await open(browser, report({...result, ...studies}));
    for (const id of ["goodput", "sweep", "pareto", "sensitivity", "fallback"]) {
      assert.equal(await page.locator(`section#${id}`).count(), 1, id);
    }
    const points = await page.$$eval("#sweep circle", (all) => all.map((n) => [Number(n.dataset.gpus), Number(n.dataset.efficiency)]));
    assert.deepEqual(points, [[16, 1], [64, 0.952], [256, 0.714]]);
    assert.equal(await page.locator("#plans [data-proved]").count(), 2);
    const changes = await page.$$eval("#sensitivity .bar", (all) => all.map((n) => [Number(n.dataset.change), n.getBoundingClientRect().width]));
    assert.deepEqual(changes.map(([value]) => value), [0.06, -0.03, 0.12, 0]);
    assert.ok(Math.abs(changes[2][1] / changes[0][1] - 2) < 0.05);
    const shares = await page.$$eval("#goodput .strip span", (all) => all.map((n) => Number(n.dataset.value)));
    assert.deepEqual(shares, [0.93, 0.02, 0.05]);
    assert.match(await page.innerText("#fallback"), /38\.0 %/);
    assert.match(await page.innerText("#sensitivity"), /link bandwidth <b>/);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 1400);
    clean(page);
    await page.close();
  });

  it("keep their rows low on a phone", async () => {
    const page = await open(browser, report({...result, ...studies}), {viewport: {width: 400, height: 900}});
    const heights = await page.$$eval("#pareto tbody tr, #fallback tbody tr", (all) => all.map((n) => n.getBoundingClientRect().height));
    assert.ok(heights.length >= 3 && Math.max(...heights) < 160, `${heights}`);
    await page.close();
  });
});

describe("predicted against measured", () => {
  const nasty = "<img src=x onerror=window.hacked=1>";
  const run = (text, predicted_s, ratio) => ({text, predicted_s, measured_s: predicted_s * ratio, ratio, spread: 0.02, notes: []});
  const operation = (part, name, measurement) => ({part, name, count_per_step: 8, predicted_s: 1e-3, exposed_s: 1e-3, share: 0.1,
    fidelity: measurement ? "measured" : "predicted", ...(measurement ? {run: measurement} : {reason: "too large"}), believed_s: 1e-3});
  const checked = (plan, new_rank, deviation, operations) => ({rank: plan.rank, new_rank, strategy: plan.strategy,
    strategy_text: plan.strategy_text, predicted_step_time_s: plan.step_time_s, step_time_s: plan.step_time_s * (1 + deviation),
    deviation, within_tolerance: Math.abs(deviation) <= 0.15, coverage: 0.7, extrapolated: 0.2, unmeasured: 0.1,
    host: {bound: new_rank === 1, launches_s: 0.25, hidden_s: 0.125}, operations});
  const rank = (n) => ({rank: n, local_rank: n, node: 0, host: "worker", device: "NVIDIA <b>A100</b>", device_id: `${n}`});
  const validation = () => ({schema_version: 1, tool: {name: "meshplan", version: "1.0"}, model: result.model.name,
    cluster: result.cluster.name, tolerance: 0.15, within_tolerance: false, samples: 4, not_reached: 1, failures: [`${nasty} failed`],
    machine: {record: "machine", backend: "nccl", accelerator: true, nodes: 1, ranks_per_node: 2, device_memory_bytes: 8e10,
      versions: {}, environment: {}, date: "2026-01-31T10:00:00Z", time_sliced: false, ranks: [rank(0), rank(1)]},
    plans: [checked(result.plans[0], 2, 0.3, [operation("tp", "all-gather", run("all-gather of 64 MiB", 3e-4, 1.5)),
      operation("compute", nasty, run(`gemm ${nasty}`, 1e-3, 1.02)), operation("dp", "reduce-scatter", null)]),
    checked(result.plans[1], 1, -0.05, [operation("tp", "all-gather", run("all-gather of 64 MiB", 3e-4, 1.5)),
      operation("pp", "send", run("send of 16 MiB", 2e-5, 0.8))])]});

  it("is shown where validate ran, with its values", async () => {
    const page = await open(browser, report(result, validation()));
    const deviations = await page.$$eval("#validated [data-deviation]", (all) => all.map((n) => [Number(n.dataset.deviation), n.className]));
    assert.deepEqual(deviations, [[0.3, "off"], [-0.05, "good"]]);
    const points = await page.$$eval("#validated circle", (all) => all.map((n) =>
      [Number(n.dataset.predicted), Number(n.dataset.measured), Number(n.getAttribute("cx")), Number(n.getAttribute("cy"))]));
    assert.deepEqual(points.map(([p, m]) => m / p).map((r) => Number(r.toFixed(2))), [1.5, 1.02, 0.8]);
    // On a common log scale: a point above the line took longer than predicted.
    const slope = (points[1][2] - points[2][2]) / Math.log(points[1][0] / points[2][0]);
    for (const [p, , x] of points) assert.ok(Math.abs(x - points[0][2] - slope * Math.log(p / points[0][0])) < 0.1);
    const text = await page.innerText("#validated");
    for (const wanted of ["4 operations", "1 were not reached", "2 ranks", "nccl, 2026-01-31", "+30.0 % !",
      "is bound by the host: launching kernels takes 250 ms of the predicted", "hides 125 ms by which operations were measured slower"]) assert.ok(text.includes(wanted), wanted);
    assert.equal(text.split("bound by the host").length, 2);  // of one plan
    await page.locator("#validated circle").first().hover();
    assert.match(await page.innerText(".tip"), /all-gather of 64 MiB\s*predicted 300 us, measured 450 us\s*\+50\.0 %/);
    clean(page);
    await page.close();
  });

  it("fits a phone, and hostile names in it stay text", async () => {
    const page = await open(browser, report(result, validation()), {viewport: {width: 400, height: 900}});
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 400);
    await page.locator("#validated summary").click();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("img").count(), 0);
    assert.ok((await page.innerText("#validated")).includes(nasty));
    clean(page);
    await page.close();
  });

  it("is refused of other plans", () => {
    const other = validation();
    other.plans[0].strategy_text = "tp=1";
    assert.throws(() => report(result, other), /validates other plans/);
    assert.throws(() => report(result, {plans: []}), /is no result of 'meshplan validate --json'/);
  });
});

describe("uncertainty", () => {
  it("is part of the answer: the range, the out-of-memory risk, ties", async () => {
    const page = await open(browser, html);
    const text = (await page.innerText(".answer")).replace(/\u00a0/g, " ");
    assert.match(text, /out-of-memory risk/);
    const tied = decisions.filter((p) => p.against_best?.practically_tied).length;
    assert.equal(await page.locator(".compare .tied").count(), Math.min(5, tied));
    await page.close();
  });
});

describe("other results", () => {
  it("shows what comes closest where nothing fits", async () => {
    const none = planned("--model", "llama-3.1-405b", "--cluster", "dgx-a100-80gb", "--gpus", "8",
      "--global-batch", "8", "--seq-len", "4096");
    assert.equal(none.plans.length, 0);
    const page = await open(browser, report(none));
    assert.match(await page.innerText(".answer"), /No plan fits/);
    clean(page);
    await page.close();
  });

  it("shows the estimate of one strategy", async () => {
    const one = estimated("--model", "llama-2-7b", "--cluster", "dgx-a100-80gb", "--strategy", "tp=2,pp=2,dp=2",
      "--global-batch", "64", "--seq-len", "4096");
    const page = await open(browser, report(one));
    assert.match(await page.innerText(".answer"), /tp2 pp2/);
    assert.equal(await page.locator("#memory rect[data-rank]").count() > 8, true);
    clean(page);
    await page.close();
  });

  it("does without what an older result lacks", async () => {
    const old = structuredClone(result);
    for (const key of ["evaluated_plans", "timeline", "placement"]) delete old[key];
    const page = await open(browser, report(old));
    assert.equal(await page.locator("#plans").count(), 0);
    assert.equal(await page.locator("#schedule canvas").count(), 1);  // the program adds it
    clean(page);
    await page.close();
  });
});

describe("the report of meshplan-accuracy", () => {
  const stats = {median_abs: 0.05, mean_abs: 0.06, p90_abs: 0.1, bias: -0.02, median_bias: -0.01};
  const source = (n) => ({n, step_time: stats, memory: null, feasibility: null, choice: null, searched: {}});
  const run = (id, from, predicted_s, measured_s) =>
    ({id, source: from, predicted_s, measured_s, error: predicted_s / measured_s - 1, memory_error: null, fits: true});
  const nasty = "<script>alert('x')</script>";
  const compared = {
    schema_version: 1,
    macro: {sources: 2, step_time: stats, memory: null, choice: {sources: 0, regret_mean: null, kendall_tau: null, spearman: null}},
    sources: {a: source(2), b: source(1)},
    runs: [run("a.0", "a", 1.1, 1), run(nasty, "a", 20, 25), run("b.0", "b", 0.4, 0.4)],
    skipped: [{id: "b.1", source: "b", reason: "no step time"}],
  };

  for (const width of [1400, 400]) {
    it(`draws every run and writes every number, ${width} pixels wide`, async () => {
      const page = await open(browser, withResult(html, compared), {viewport: {width, height: 900}});
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width);
      const points = await page.$$eval("#runs circle", (all) => all.map((n) => [Number(n.dataset.predicted), Number(n.dataset.measured)]));
      assert.deepEqual(points, compared.runs.map((r) => [r.predicted_s, r.measured_s]));
      await page.locator("#runs summary").click();
      assert.ok((await page.innerText("#runs")).includes(nasty));
      await page.locator("#skipped summary").click();
      assert.ok((await page.innerText("#skipped")).includes("no step time"));
      const sources = await page.innerText("#sources");
      for (const part of ["5.0 %", "−2.0 %", "mean of 2 sources"]) assert.ok(sources.includes(part), part);
      clean(page);
      await page.close();
    });
  }

  it("shows one source alone while its row is pointed at or has the focus", async () => {
    const page = await open(browser, withResult(html, compared));
    const faded = () => page.$$eval("#runs circle", (all) => all.map((n) => n.classList.contains("faded")));
    await page.locator("#sources tbody tr").nth(1).hover();
    assert.deepEqual(await faded(), [true, true, false]);
    await page.locator("#sources tbody tr").nth(0).focus();
    assert.deepEqual(await faded(), [false, false, true]);
    await page.mouse.move(0, 0);
    await page.evaluate(() => document.activeElement.blur());
    assert.deepEqual(await faded(), [false, false, false]);
    clean(page);
    await page.close();
  });
});
