// Figures for people, in the manner of windtunnel's package unit.

export function number(v: number): string {
  const a = Math.abs(v);
  if (!Number.isFinite(v)) return "–";
  if (a >= 1e15 || (a > 0 && a < 1e-4)) return v.toPrecision(3);
  if (Number.isInteger(v) || a >= 999.5) return Math.round(v).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  return String(Number(v.toPrecision(3)));
}

export function seconds(s: number): string {
  const a = Math.abs(s);
  if (a === 0) return "0 s";
  if (a < 0.9995e-3) return number(Number((s * 1e6).toPrecision(3))) + " µs";
  if (a < 0.9995) return number(Number((s * 1e3).toPrecision(3))) + " ms";
  if (a < 99.95) return number(s) + " s";
  return clock(s, 1);
}

export function bytes(v: number): string {
  let suffix = "B";
  for (const next of ["KiB", "MiB", "GiB", "TiB"]) {
    if (Math.abs(v) < 1024) break;
    v /= 1024;
    suffix = next;
  }
  return number(suffix === "B" ? Math.round(v) : v) + " " + suffix;
}

// text writes a value with its unit; plural units stand behind the number.
export function text(v: number | null | undefined, unit: string): string {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  if (unit === "seconds") return seconds(v);
  if (unit === "bytes") return bytes(v);
  const n = number(v);
  return n + " " + (n === "1" ? singular(unit) : unit);
}

// singular is the name of one of what a unit counts, as internal/unit has it.
function singular(unit: string): string {
  if (unit.length < 4 || /[/ ]/.test(unit) || !unit.endsWith("s")) return unit;
  if (unit.endsWith("ies")) return unit.slice(0, -3) + "y";
  return unit.slice(0, /(ch|ss)es$/.test(unit) ? -2 : -1);
}

// clock writes a moment of the run as minutes and seconds: 1:23, 1:02:03. step
// is the distance of such moments, which says how fine they must be.
export function clock(s: number, step: number): string {
  const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : 2;
  const sign = s < -1e-9 ? "-" : "";
  const total = Number(Math.abs(s).toFixed(digits));
  const h = Math.floor(total / 3600);
  const m = Math.floor(total / 60) % 60;
  const rest = (total % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return sign + (h > 0 ? h + ":" + String(m).padStart(2, "0") : String(m)) + ":" + rest;
}
