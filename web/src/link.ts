// Link keeps all time charts at one stretch of time and one moment.

export class Link {
  from: number;
  to: number;
  private readonly ranges: (() => void)[] = [];
  private readonly moments: ((t: number | null, source: object) => void)[] = [];

  constructor(
    private first: number,
    private last: number,
  ) {
    this.from = first;
    this.to = last;
  }

  // extend takes note of what has been recorded since. A reader who has zoomed
  // in stays there; one who sees the whole run goes on seeing all of it.
  extend(first: number, last: number): void {
    const whole = !this.zoomed;
    this.first = first;
    this.last = last;
    if (whole) {
      this.from = first;
      this.to = last;
    }
    this.ranges.forEach((f) => f());
  }

  get zoomed(): boolean {
    return this.from > this.first || this.to < this.last;
  }

  onRange(f: () => void): void {
    this.ranges.push(f);
  }

  onMoment(f: (t: number | null, source: object) => void): void {
    this.moments.push(f);
  }

  // show sets the stretch; it stays inside the run and does not vanish.
  show(from: number, to: number): void {
    const least = (this.last - this.first) / 2000;
    from = Math.max(from, this.first);
    to = Math.min(to, this.last);
    if (!(to - from >= least) || (from === this.from && to === this.to)) return;
    this.from = from;
    this.to = to;
    this.ranges.forEach((f) => f());
  }

  all(): void {
    this.show(this.first, this.last);
  }

  // zoom shows the share factor of the present stretch about t.
  zoom(t: number, factor: number): void {
    this.show(t - (t - this.from) * factor, t + (this.to - t) * factor);
  }

  point(t: number | null, source: object): void {
    this.moments.forEach((f) => f(t, source));
  }
}
