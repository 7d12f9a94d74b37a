import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { comparison, follow, Refused, runs, stop } from "../src/api";

const fetched = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = fetched;
});

// answers lets each request have one answer, and returns what was asked for.
function answers(status: number, body: string): [string, RequestInit | undefined][] {
  const asked: [string, RequestInit | undefined][] = [];
  globalThis.fetch = (url, init) => {
    asked.push([String(url), init]);
    return Promise.resolve(new Response(body, { status }));
  };
  return asked;
}

test("no runs are an empty list", async () => {
  answers(200, '{"runs":null}');
  assert.deepEqual(await runs(), []);
});

test("names of runs are escaped", async () => {
  const asked = answers(200, "{}");
  await comparison(["a/1", "a 2"], ["b&c"]);
  assert.equal(asked[0]![0], "/api/compare?a=a%2F1&a=a+2&b=b%26c");
  await stop("density/now 1");
  assert.equal(asked[1]![0], "/api/runs/density%2Fnow%201/stop");
  assert.equal((asked[1]![1]!.headers as Record<string, string>)["X-Windtunnel"], "1"); // what another site's page cannot send
});

test("a refusal says why, in the server's words where it has some", async () => {
  for (const [status, body, want] of [
    [404, '{"error":"no such run"}', "no such run"],
    [502, "<h1>Bad gateway</h1>", "<h1>Bad gateway</h1>"],
    [503, "", "The server answered 503."],
  ] as const) {
    answers(status, body);
    await assert.rejects(runs(), (e) => e instanceof Refused && e.status === status && e.message === want);
  }
  answers(401, "");
  await assert.rejects(runs(), /asks for a token/);
});

test("a run is followed until its end", () => {
  class Source extends EventTarget {
    static last: Source;
    closed = false;
    constructor(readonly url: string) {
      super();
      Source.last = this;
    }
    close(): void {
      this.closed = true;
    }
    say(type: string, value: unknown): void {
      this.dispatchEvent(new MessageEvent(type, { data: JSON.stringify(value) }));
    }
  }
  globalThis.EventSource = Source as unknown as typeof EventSource;
  const heard: string[] = [];
  const end = follow("a/1", (p) => heard.push("page " + p.name), (s) => heard.push("at " + s.step), () => heard.push("ended"), (is) => heard.push(is ? "lost" : "there"));
  const source = Source.last;
  source.say("status", { step: "fill" });
  source.dispatchEvent(new Event("error"));
  source.say("page", { name: "density" });
  source.say("end", null);
  assert.equal(source.url, "/api/runs/a%2F1/events");
  assert.deepEqual(heard, ["there", "at fill", "lost", "there", "page density", "ended"]);
  assert.ok(source.closed);
  end();
});
