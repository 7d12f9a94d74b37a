import type { Page } from "./data";

// What the server answers; live.ts has the contract.

export interface Run {
  id: string;
  scenario: string;
  varied: string; // parameters in which the runs of its scenario differ
  started: string; // RFC 3339
  state: "pass" | "fail" | "unknown" | "running";
  sentence: string;
  seconds: number;
}

// Refused is an answer that is no success. Its message is for people.
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export async function runs(): Promise<Run[]> {
  return ((await get("/api/runs")) as { runs: Run[] | null }).runs ?? [];
}

export async function page(id: string): Promise<Page> {
  return (await get(path(id, "page"))) as Page;
}

export async function comparison(a: string[], b: string[]): Promise<Page> {
  const query = new URLSearchParams([...a.map((id) => ["a", id]), ...b.map((id) => ["b", id])]);
  return (await get("/api/compare?" + query)) as Page;
}

export async function stop(id: string): Promise<void> {
  await checked(await fetch(path(id, "stop"), { method: "POST", headers: { "X-Windtunnel": "1" } }));
}

// Status is where a run under way stands; record.Status has the meanings.
export interface Status {
  step: string;
  index: number;
  of: number;
  elapsed: number;
  done?: number;
  total?: number;
  achieved?: number;
  p99?: number;
  failed?: number;
  late?: number;
  for?: string;
  left: number;
}

// follow calls on for each page of a run under way, stands for where it stands
// between them, and ended when it has ended and its last page has come. lost is
// called with true while the connection is gone. It returns what ends it.
export function follow(
  id: string,
  on: (page: Page) => void,
  stands: (status: Status) => void,
  ended: () => void,
  lost: (is: boolean) => void,
): () => void {
  const source = new EventSource(path(id, "events"));
  source.addEventListener("status", (e) => {
    lost(false);
    stands(JSON.parse((e as MessageEvent<string>).data) as Status);
  });
  source.addEventListener("page", (e) => {
    lost(false);
    on(JSON.parse((e as MessageEvent<string>).data) as Page);
  });
  source.addEventListener("end", () => {
    source.close();
    ended();
  });
  source.addEventListener("error", () => lost(true));
  return () => source.close();
}

function path(id: string, what: string): string {
  return `/api/runs/${encodeURIComponent(id)}/${what}`;
}

async function get(url: string): Promise<unknown> {
  return (await checked(await fetch(url, { headers: { Accept: "application/json" } }))).json();
}

async function checked(answer: Response): Promise<Response> {
  if (answer.ok) return answer;
  if (answer.status === 401) throw new Refused(401, "This server asks for a token: open the page by the address that windtunnel serve printed.");
  const text = await answer.text();
  let message = text;
  try {
    message = (JSON.parse(text) as { error?: string }).error ?? text;
  } catch {
    /* a proxy's words are better than none */
  }
  throw new Refused(answer.status, message || `The server answered ${answer.status}.`);
}
