import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, clock, number, seconds, text } from "../src/format";

// Pages write figures as the terminal does: internal/unit has these cases, too.
test("numbers", () => {
  for (const [v, want] of [
    [0, "0"], [3000, "3,000"], [1234567, "1,234,567"], [-1234, "-1,234"], [1234.56, "1,235"], [999.4, "999"], [1.244, "1.24"],
    [0.00001234, "0.0000123"], [2e15, "2.00e+15"], [NaN, "–"], [Infinity, "–"],
  ] as const) assert.equal(number(v), want);
});

test("seconds take the unit that reads best", () => {
  for (const [v, want] of [
    [0, "0 s"], [0.0000042, "4.2 µs"], [0.00431, "4.31 ms"], [0.9996, "1 s"], [98.7321, "98.7 s"], [185, "3:05"], [-0.002, "-2 ms"],
  ] as const) assert.equal(seconds(v), want);
});

test("bytes are counted in powers of 1,024", () => {
  for (const [v, want] of [
    [0, "0 B"], [1023, "1,023 B"], [1 << 30, "1 GiB"], [1023 * 2 ** 20, "1,023 MiB"], [1.1 * 2 ** 30, "1.1 GiB"], [2 ** 52, "4,096 TiB"],
  ] as const) assert.equal(bytes(v), want);
});

test("a value has its unit, and what is not known a dash", () => {
  assert.equal(text(0.5, "seconds"), "500 ms");
  assert.equal(text(2048, "bytes"), "2 KiB");
  assert.equal(text(227.4, "pods/s"), "227 pods/s");
  for (const [unit, want] of [["cores", "1 core"], ["watches", "1 watch"], ["entries", "1 entry"], ["pods/s", "1 pods/s"], ["ms", "1 ms"]] as const) assert.equal(text(1, unit), want);
  assert.equal(text(1.2, "cores"), "1.2 cores");
  for (const v of [null, undefined, NaN]) assert.equal(text(v, "seconds"), "–");
});

test("clocks are as fine as their step", () => {
  for (const [s, step, want] of [
    [0, 1, "0:00"], [83, 1, "1:23"], [3723, 1, "1:02:03"], [83.25, 0.1, "1:23.3"], [83.25, 0.01, "1:23.25"], [59.96, 0.1, "1:00.0"], [-5, 1, "-0:05"],
  ] as const) assert.equal(clock(s, step), want);
});
