import type { Site } from "./site";

// A page as package report writes it (report.Page). Times are seconds since the
// run clock's zero, in a comparison since each run's begin; null is a gap.

export interface Page {
  kind: "run" | "comparison" | "site";
  state: "pass" | "fail" | "unknown" | "running" | "compared";
  title: string;
  name: string;
  started: string;
  when: string;
  main?: string; // markup of the sections; absent where the document has it
  data: Data;
  site?: Site; // of kind site
}

export interface Data {
  from: number;
  to: number;
  steps: Step[] | null;
  marks: Mark[] | null;
  time: TimeChart[] | null;
  arms?: string[]; // of a comparison: what the lines of each chart are
  startup: Spread[] | null;
  lifecycles?: Spread[][]; // of those that the scenario declares
  startupBound: number | null;
  heat: Heat;
  buckets: Buckets;
}

export interface Step {
  name: string;
  from: number;
  to: number;
  note?: string;
  ended: boolean;
}

export interface Mark {
  at: number;
  kind: string;
  name?: string;
  text?: string;
}

export interface TimeChart {
  id: string;
  title: string;
  unit: string;
  note?: string;
  shape?: "" | "level" | "rate" | "hold" | "stack"; // how values stand in their bins
  stacked?: boolean; // lines are parts of a whole: areas on top of each other, the first one uppermost
  from: number;
  width: number;
  lines: Line[] | null;
  bound?: { name: string; at: number };
}

export interface Line {
  name: string;
  mean: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
  limit: number | null;
}

export interface Spread {
  group: string;
  arm?: string; // of a comparison
  phase: string;
  n: number;
  open: number;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  max: number | null;
  bounds?: Partial<Record<"p50" | "p90" | "p99" | "max", string>>; // "≤" or ">" where the value is only a bound
  first: number;
  counts: number[] | null;
}

export interface Heat {
  from: number;
  width: number;
  n: number;
  maps: HeatMap[] | null;
}

export interface HeatMap {
  name: string;
  source: string;
  calls: number;
  cells: number[];
}

export interface Buckets {
  least: number;
  perDecade: number;
}

// bucketFrom is the lower end of a bucket in seconds, 0 for the first one.
export function bucketFrom(b: Buckets, bucket: number): number {
  return bucket === 0 ? 0 : b.least * 10 ** ((bucket - 1) / b.perDecade);
}

// bucketTo is its upper end.
export function bucketTo(b: Buckets, bucket: number): number {
  return b.least * 10 ** (bucket / b.perDecade);
}

// embedded is the page that the document holds; null in the live page.
export function embedded(): Page | null {
  const text = document.getElementById("data")!.textContent!.trim();
  return text === "" ? null : (JSON.parse(text) as Page);
}
