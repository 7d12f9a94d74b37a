import assert from "node:assert/strict";
import { test } from "node:test";
import { type Curve, specOf, stack, whole } from "../src/curves";
import { bucketFrom, bucketTo, type Line, type TimeChart } from "../src/data";
import { lanes } from "../src/lanes";

const line = (name: string, ...mean: (number | null)[]): Line => ({ name, mean, limit: null });
const chart = (more: Partial<TimeChart>): TimeChart => ({ id: "x", title: "X", unit: "count", from: 10, width: 2, lines: [line("a", 1, null, 3)], ...more });

test("values stand where their shape says", () => {
  assert.deepEqual(specOf(chart({}), false).times, [11, 13, 15]); // samples in the middle
  assert.deepEqual(specOf(chart({ shape: "level" }), false).times, [12, 14, 16]); // at the end
  const rate = specOf(chart({ shape: "rate" }), false); // from the begin, the last once more
  assert.deepEqual(rate.times, [10, 12, 14, 16]);
  assert.deepEqual(rate.curves[0]!.values, [1, null, 3, 3]);
});

test("a chart without lines has no moments", () => {
  assert.deepEqual(specOf(chart({ lines: null }), false).times, []);
  assert.deepEqual(specOf(chart({ lines: [line("a")], shape: "rate" }), false).times, []);
});

test("one line is filled, in a stack all but the first, in a comparison none", () => {
  const fills = (c: TimeChart, arms = false) => specOf(c, arms).curves.map((v) => v.fill);
  const two = [line("a", 1), line("b", 2)];
  assert.deepEqual(fills(chart({})), [true]);
  assert.deepEqual(fills(chart({ lines: two })), [false, false]);
  assert.deepEqual(fills(chart({ lines: two, id: "pods" })), [false, true]);
  assert.deepEqual(fills(chart({ lines: two, shape: "stack" })), [false, true]);
  assert.deepEqual(fills(chart({}), true), [false]);
});

test("parts of a whole stand on those below them, and come down where one is away", () => {
  const parts = [line("top", 1, 1, 1), line("middle", 2, null, 2), line("bottom", 4, 4, null)];
  const spec = specOf(chart({ stacked: true, lines: parts }), false);
  assert.equal(spec.stacked, true);
  assert.deepEqual(spec.curves.map((c) => [c.name, c.fill]), [["top", true], ["middle", true], ["bottom", true]]);
  const all = (_: Curve) => true;
  assert.deepEqual(stack(spec.curves, all), [[7, 5, 3], [6, null, 2], [4, 4, null]]);
  assert.deepEqual(spec.curves.map((c) => c.values[0]), [1, 2, 4]); // the legend says each one's own
  assert.equal(whole(spec.curves, all, 0), 7);
  assert.equal(whole(spec.curves, all, 1), 5);

  const noBottom = (c: Curve) => c.name !== "bottom"; // put away by the reader
  assert.deepEqual(stack(spec.curves, noBottom).slice(0, 2), [[3, 1, 3], [2, null, 2]]);
  assert.equal(whole(spec.curves, noBottom, 0), 3);
  assert.equal(whole(spec.curves, () => false, 0), null);
});

test("a chart that is not stacked is not, and a stack has no extremes", () => {
  assert.equal(specOf(chart({}), false).stacked, undefined);
  const wide = { ...line("a", 1), low: [0], high: [2] };
  assert.equal(specOf(chart({ lines: [wide] }), false).curves[0]!.high, wide.high);
  assert.equal(specOf(chart({ stacked: true, lines: [wide] }), false).curves[0]!.high, undefined);
});

test("of the components, the largest is the solid line", () => {
  const lines = [line("small", 1), line("large", 9), line("middle", 5)];
  const solid = (id: string) => specOf(chart({ id, lines }), false).curves.findIndex((c) => c.dash.length === 0);
  assert.equal(solid("cpu"), 1);
  assert.equal(solid("calls"), 0);
});

test("steps beside or within one another take a lane each", () => {
  const step = (from: number, to: number) => ({ name: "s", from, to, ended: true });
  assert.deepEqual(lanes([step(0, 10), step(10, 20), step(12, 15), step(13, 14), step(20, 30)]), [0, 0, 1, 2, 0]);
});

test("buckets adjoin, and the first begins at nothing", () => {
  const b = { least: 1e-4, perDecade: 10 };
  assert.equal(bucketFrom(b, 0), 0);
  for (let i = 1; i < 60; i++) assert.ok(Math.abs(bucketFrom(b, i) / bucketTo(b, i - 1) - 1) < 1e-12);
  assert.ok(Math.abs(bucketTo(b, 40) - 1) < 1e-12);
});
