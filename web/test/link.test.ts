import assert from "node:assert/strict";
import { test } from "node:test";
import { Link } from "../src/link";

const range = (l: Link) => [l.from, l.to];

test("what is shown stays inside the run and does not vanish", () => {
  const l = new Link(0, 100);
  l.show(-50, 40);
  assert.deepEqual(range(l), [0, 40]);
  l.show(20, 20.01); // less than a two-thousandth of the run
  assert.deepEqual(range(l), [0, 40]);
  l.show(NaN, 30);
  assert.deepEqual(range(l), [0, 40]);
  l.all();
  assert.deepEqual(range(l), [0, 100]);
});

test("zoom keeps its centre", () => {
  const l = new Link(0, 100);
  l.zoom(25, 0.5);
  assert.deepEqual(range(l), [12.5, 62.5]);
  assert.ok(l.zoomed);
});

test("a growing run carries along who sees all of it, and leaves who zoomed in", () => {
  const all = new Link(0, 10);
  all.extend(0, 20);
  assert.deepEqual(range(all), [0, 20]);
  const zoomed = new Link(0, 10);
  zoomed.show(2, 4);
  zoomed.extend(0, 20);
  assert.deepEqual(range(zoomed), [2, 4]);
});

test("charts hear of each change once", () => {
  const l = new Link(0, 10);
  let ranges = 0;
  const moments: (number | null)[] = [];
  l.onRange(() => ranges++);
  l.onMoment((t) => moments.push(t));
  l.show(1, 2);
  l.show(1, 2);
  l.point(1.5, l);
  l.point(null, l);
  assert.equal(ranges, 1);
  assert.deepEqual(moments, [1.5, null]);
});
