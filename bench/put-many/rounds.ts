// The requests that npm run bench -- put-many sends, one after the other.
import { stringify } from "yaml";
import { documentOf } from "../control-plane/fill.ts";

export interface Round {
  readonly request: string;
  readonly query: string;
  readonly type: string;
  readonly body: () => string;
  /** What the answer says. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Each round begins and ends with a single policy. */
export function roundsOf(policies: number): Round[] {
  const documents = (quota: number) =>
    Array.from({ length: policies }, (_, i) => {
      const document = documentOf(i) as { limits: object[] };
      return { ...document, limits: document.limits.map((limit) => ({ ...limit, quota })) };
    });
  const lines = (quota: number, count = policies) => {
    const some = documents(quota).slice(0, count);
    return some.map((document) => `${JSON.stringify(document)}\n`).join("");
  };
  const yaml = () =>
    documents(100)
      .map((document) => `---\n${stringify(document)}`)
      .join("");
  const least = () => lines(100, 1);
  const type = "application/jsonl";
  return [
    { request: "one, so that all others go", query: "?prune=true", type, body: least, counts: {} },
    { request: "all are new", query: "", type, body: () => lines(100), counts: { created: policies - 1 } },
    { request: "all are changed", query: "", type, body: () => lines(200), counts: { changed: policies } },
    { request: "none is changed", query: "", type, body: () => lines(200), counts: { unchanged: policies } },
    {
      request: "all are changed, YAML",
      query: "",
      type: "application/yaml",
      body: yaml,
      counts: { changed: policies },
    },
    {
      request: "all but one are deleted",
      query: "?prune=true",
      type,
      body: least,
      counts: { deleted: policies - 1 },
    },
  ];
}
