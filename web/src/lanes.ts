import type { Step } from "./data";

// lanes gives each step the first lane that is free when it begins: steps that
// follow one another share one, those beside each other or within another do not.
export function lanes(steps: Step[]): number[] {
  const ends: number[] = [];
  return steps.map((s) => {
    const free = ends.findIndex((end) => end <= s.from + 1e-6);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = s.to;
    return lane;
  });
}
