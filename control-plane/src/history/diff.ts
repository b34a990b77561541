// Shows what changed in a document: as a JSON Patch (RFC 6902) for programs, and as a unified diff of YAML for people.

import { createTwoFilesPatch, FILE_HEADERS_ONLY } from "diff";
import { createPatch, type Operation } from "rfc6902";
import { stringify } from "yaml";
import type { DocumentChange, DocumentKind } from "../storage/history.ts";

export interface ShownChange {
  readonly kind: DocumentKind;
  readonly app: string;
  readonly name: string;
  readonly change: "created" | "updated" | "deleted";
  /** From the document before to the one after. A document that was created or deleted is replaced as a whole. */
  readonly patch: readonly Operation[];
  /** A unified diff of both as YAML. */
  readonly text: string;
}

export function showChange({ kind, app, name, before, after }: DocumentChange): ShownChange {
  const change = before === undefined ? "created" : after === undefined ? "deleted" : "updated";
  return {
    kind,
    app,
    name,
    change,
    patch: patchOf(before, after),
    text: textOf(`${app}/${kind}/${name}`, before, after),
  };
}

function patchOf(before: unknown, after: unknown): Operation[] {
  if (before === undefined) return [{ op: "add", path: "", value: after }];
  if (after === undefined) return [{ op: "remove", path: "" }];
  return createPatch(before, after);
}

function textOf(name: string, before: unknown, after: unknown): string {
  const [from, to] = [before, after].map((document) => (document === undefined ? "" : stringify(document)));
  const nameOf = (document: unknown) => (document === undefined ? "/dev/null" : name);
  const options = { context: 3, headerOptions: FILE_HEADERS_ONLY };
  return createTwoFilesPatch(nameOf(before), nameOf(after), from ?? "", to ?? "", undefined, undefined, options);
}
