// Numbers for people, as the program's own tables write them: 1.24 s, 61.3 GiB, 412 TFLOP/s.

export function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function scaled(value, steps) {
  const step = steps.find(([size]) => Math.abs(value) >= size) ?? steps[steps.length - 1];
  return `${threeDigits(value / step[0])} ${step[1]}`;
}

export function time(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds >= 1 && seconds < 600) return `${threeDigits(seconds)} s`;
  return scaled(seconds, [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]]);
}

export function bytes(count) {
  if (Math.abs(count) < 1024) return `${count} B`;
  return scaled(count, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]);
}

export function count(value) {
  const steps = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]];
  const step = steps.find(([size]) => Math.abs(value) >= size);
  if (!step) return Number.isInteger(value) ? String(value) : value.toFixed(2);
  const number = value / step[0];
  return `${number.toFixed(number >= 100 ? 1 : 2)} ${step[1]}`;
}

export const percent = (ratio) => `${(100 * ratio).toFixed(1)} %`;
// A percentage with its sign; what rounds to nothing has none.
export function change(ratio) {
  const text = percent(Math.abs(ratio));
  if (text === percent(0)) return text;
  return `${ratio > 0 ? "+" : "−"}${text}`;
}

// How a step time compares with the best plan's, whose multiple it is.
export const slower = (slowdown) => slowdown < 1.0005 ? "no slower" : `${percent(slowdown - 1)} slower`;

// "26.8 – 33.0 s": two quantities, the unit once where it is the same.
export function range(low, high) {
  const unit = (text) => text.slice(text.lastIndexOf(" "));
  return `${unit(low) === unit(high) ? low.slice(0, low.lastIndexOf(" ")) : low} – ${high}`;
}

// A chance, without more digits than it deserves.
export function chance(probability) {
  if (probability < 0.01) return "under 1 %";
  if (probability > 0.99) return "over 99 %";
  return `${Math.round(100 * probability)} %`;
}

// A number far below one.
export const small = (value) => value < 0.001 ? value.toExponential(1) : value.toPrecision(2);

export const thousands = (value) => Math.round(value).toLocaleString("en-US");
export const rate = (tflops) => `${threeDigits(tflops)} TFLOP/s`;
export const bandwidth = (bytesPerSecond) =>
  scaled(bytesPerSecond, [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]]);

export function money(usd) {
  if (usd >= 1000) return `$${thousands(usd)}`;
  return `$${usd.toFixed(usd >= 1 ? 2 : 4)}`;
}

// Sentences of the program, with numbers kept beside their units.
export const prose = (text) => text.replace(/(\d) (%|[KMGT]?i?B\b|[mun]?s\b|min\b)/g, "$1\u00a0$2");

// The value of a strategy key as strategies write it.
export function keyText(value) {
  if (Array.isArray(value)) return `[${value.join(",")}]`;
  return String(value);
}
