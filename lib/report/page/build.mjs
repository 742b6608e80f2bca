// Bundles the page into one template and writes it as the C++ source that the program embeds.
// usage: node build.mjs OUTPUT_CPP LICENCES_TXT
//
// Only the script and the style of this very build may run: their hashes go into the policy, which
// also forbids every connection.
import {createHash} from "node:crypto";
import {readFileSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {build} from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const [output, licenceFile] = process.argv.slice(2);
if (!output || !licenceFile) {
  console.error("usage: node build.mjs OUTPUT_CPP LICENCES_TXT");
  process.exit(2);
}

const options = {bundle: true, minify: true, write: false, legalComments: "none", charset: "utf8"};
const script = await build({
  ...options,
  entryPoints: [join(here, "src/main.js")],
  absWorkingDir: here,
  format: "iife",
  target: ["es2020"],
  metafile: true,
});
const style = await build({...options, entryPoints: [join(here, "style.css")]});

// The packages that ended up in the bundle, with their licences.
function licences() {
  const packages = new Set();
  for (const input of Object.keys(script.metafile.inputs)) {
    const found = input.match(/(?:^|.*\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (found) packages.add(found[1]);
  }
  return [...packages].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const {version, license} = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const text = readFileSync(join(folder, "LICENSE"), "utf8").trim();
    return `${name} ${version} (${license})\n\n${text}\n`;
  }).join("\n");
}

function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

const hash = (text) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;
const js = script.outputFiles[0].text.trim().replace(/<\/script/gi, "<\\/script");
const css = style.outputFiles[0].text.trim();
const policy = `default-src 'none'; script-src ${hash(js)}; style-src ${hash(css)}; img-src data:; ` +
  "base-uri 'none'; form-action 'none'";

const licenceText = licences();
const page = readFileSync(join(here, "index.html"), "utf8")
  .replace("{{policy}}", () => policy)
  .replace("{{style}}", () => css)
  .replace("{{licences}}", () => escaped(licenceText))
  .replace("{{script}}", () => js);

// Raw strings side by side, each short enough for any compiler.
const delimiter = "meshplan";
if (page.includes(`)${delimiter}"`)) throw new Error("the page ends the raw string it is put in");
const pieces = page.match(/[^]{1,12000}/gu).map((piece) => `R"${delimiter}(${piece})${delimiter}"`);
writeFileSync(output, `#include "report/page.hpp"

namespace meshplan {

std::string_view page_template() {
  static constexpr std::string_view kPage = ${pieces.join("\n")};
  return kPage;
}

}  // namespace meshplan
`);
writeFileSync(licenceFile, licenceText);
