// A browser, and reports written by the program under test.
import {execFileSync} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {pathToFileURL} from "node:url";
import {chromium} from "playwright-core";

const folder = mkdtempSync(join(tmpdir(), "meshplan-report-"));
export const cleanUp = () => rmSync(folder, {recursive: true});

function meshplan(...args) {
  return execFileSync(process.env.MESHPLAN, args, {encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"]});
}

export function planned(...args) {
  try {
    return JSON.parse(meshplan("plan", "--json", "-q", ...args));
  } catch (failure) {
    if (failure.status === 1) return JSON.parse(failure.stdout);  // nothing fits
    throw failure;
  }
}

export const estimated = (...args) => JSON.parse(meshplan("estimate", "--json", "-q", ...args));

export const pipelined = () => planned("--model", "llama-2-70b", "--cluster", "dgx-a100-80gb", "--gpus", "64",
  "--global-batch", "256", "--seq-len", "4096", "--fix", "pp=4,vp=1");

// The report of a result, with what was measured of it; returns the path of the HTML file.
let number = 0;
export function report(result, validation) {
  const json = join(folder, `${++number}.json`), html = join(folder, `${number}.html`);
  writeFileSync(json, JSON.stringify(result));
  const measured = validation ? ["--validation", join(folder, `${number}-measured.json`)] : [];
  if (validation) writeFileSync(measured[1], JSON.stringify(validation));
  meshplan("report", "-q", "--plans", json, "--html", html, ...measured);
  return html;
}

export const embedded = (html) =>
  JSON.parse(readFileSync(html, "utf8").match(/<script type="application\/json" id="result">([^<]*)<\/script>/)[1]);

// The page of a report with another result in it.
export function withResult(html, result) {
  const file = join(folder, `${++number}.html`), text = JSON.stringify(result).replace(/</g, "\\u003c");
  writeFileSync(file, readFileSync(html, "utf8").replace(/(id="result">)[^<]*/, (_, open) => open + text));
  return file;
}

export const launch = () => chromium.launch({executablePath: process.env.CHROMIUM, args: ["--no-sandbox"]});

// Opens a file; whatever goes wrong in it lands in page.problems.
export async function open(browser, html, options = {}) {
  const page = await browser.newPage({viewport: {width: 1400, height: 900}, ...options});
  page.problems = [];
  page.on("console", (message) => {
    if (/getImageData/.test(message.text())) return;  // the tests' own reading of the canvas
    if (["error", "warning"].includes(message.type())) page.problems.push(message.text());
  });
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("request", (request) => {
    if (request.url() !== pathToFileURL(html).href) page.problems.push(`request of ${request.url()}`);
  });
  await page.goto(pathToFileURL(html).href);
  await page.waitForSelector("html[data-ready]", {timeout: 20000});
  await page.waitForTimeout(200);  // the charts draw once their width is known
  return page;
}
