// The page's embedded data, as package report writes it. Times are seconds
// since the run clock's zero; null is a gap.

export interface Data {
  from: number;
  to: number;
  steps: Step[] | null;
  marks: Mark[] | null;
  time: TimeChart[] | null;
  startup: Spread[] | null;
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
  from: number;
  width: number;
  lines: Line[];
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
  phase: string;
  n: number;
  open: number;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  max: number | null;
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

export function readData(): Data {
  return JSON.parse(document.getElementById("data")!.textContent!) as Data;
}
