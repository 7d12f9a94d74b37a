import assert from "node:assert/strict";
import { test } from "node:test";
import { compareMeasures, usualDifference, type Site } from "../src/site";

test("what is usual needs five pairs of runs", () => {
  assert.equal(usualDifference([1, 2, 3, null, 4, 5]), null);
  assert.equal(usualDifference([0, 1, 1, 1, 1, 1]), null);
});

test("what is usual is a median: one outlier does not move it", () => {
  assert.ok(Math.abs(usualDifference([100, 102, 104.04, null, 106.1208, 108.243216, 500, 510])! - 0.02) < 1e-9);
});

const site: Site = {
  measures: [
    { key: "a", title: "latency", unit: "seconds", better: "lower" },
    { key: "b", title: "rate", unit: "calls/s", better: "higher" },
    { key: "c", title: "only in A", unit: "", better: "lower" },
    { key: "d", title: "from nothing", unit: "", better: "lower" },
    { key: "e", title: "as usual", unit: "", better: "lower" },
  ],
  versions: [{}],
  series: [
    { measures: [4, 0, 1, 2, 3], values: [[10, 11, 10, 11, 10, 11], [1, 1.01, 1, 1.01, 1, 1.01], [50, 51, 50, 51, 50, 51], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]] },
    { measures: [0, 1, 3, 4], values: [[1.2], [80], [3], [12]] },
  ].map((s) => ({ scenario: "s", label: "", parameters: {}, machine: "", text: "", sentence: "", names: [], started: [], verdicts: "", seeds: [], versions: [], changes: {}, ...s })),
};

test("two runs are compared by the measures that both have, what stands out first", () => {
  const rows = compareMeasures(site, { series: 0, run: 0 }, { series: 1, run: 0 });
  assert.deepEqual(rows.map((r) => [r.title, r.state]), [["rate", "pass"], ["latency", "fail"], ["as usual", ""], ["from nothing", ""]]);
  assert.equal(rows.find((r) => r.title === "from nothing")!.change, null);
});
