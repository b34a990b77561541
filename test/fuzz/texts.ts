// Sends YAML and JSON texts: a viewer has them validated, an editor puts them. What is accepted must be stored as the text says,
// and take hardly any time.

import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import type { ControlPlaneWatch } from "./control-plane-watch.ts";
import { type DocumentText, documentTexts } from "./document-texts.ts";
import type { Answer } from "./http-client.ts";
import { Fault, type Fuzzer, type Surroundings, type Target } from "./target.ts";

/** Policies of this app may match everything, so that only the text can be at fault. */
const app = "default";
const policy = `/api/v1/apps/${app}/policies/from-texts`;
const template = `/api/v1/apps/${app}/templates/from-texts`;

interface Sending {
  readonly text: DocumentText;
  readonly how: "validated by a viewer" | "put by a viewer" | "put by an editor" | "put as a template";
}

export const texts: Target = { name: "texts", worker: "control plane", start };

async function start(surroundings: Surroundings): Promise<Fuzzer<unknown>> {
  const watch = await surroundings.controlPlane();
  const tokens = { viewer: "", editor: "" };
  const fuzzer: Fuzzer<Sending> = {
    inputs: fc.record({
      text: documentTexts,
      how: fc.constantFrom(
        "validated by a viewer",
        "put by a viewer",
        "put by an editor",
        "put by an editor",
        "put as a template",
      ),
    }),
    async play(input) {
      await assess(watch, tokens, input, await send(watch, tokens, input));
      await watch.lookAtStalls(() => send(watch, tokens, input), show(input));
    },
    show,
    async prepare() {
      for (const role of ["viewer", "editor"] as const) {
        if (tokens[role] !== "") continue;
        const { token } = await watch.admin("POST", "/tokens?wait=0s", { name: role, app, role });
        tokens[role] = token as string;
      }
    },
    recover: () => watch.untilWell(),
  };
  return fuzzer as Fuzzer<unknown>;
}

function show({ text: { type, bytes }, how }: Sending): string {
  return `${how}, ${type}, ${bytes.length} bytes:\n${shown(bytes)}`;
}

type Tokens = Readonly<Record<"viewer" | "editor", string>>;

function send(watch: ControlPlaneWatch, tokens: Tokens, { text: { type, bytes }, how }: Sending): Promise<Answer> {
  const token = how === "put by an editor" || how === "put as a template" ? tokens.editor : tokens.viewer;
  const validates = how === "validated by a viewer";
  return watch.send({
    method: validates ? "POST" : "PUT",
    path: validates
      ? `/api/v1/apps/${app}/policies/validate`
      : how === "put as a template"
        ? template
        : `${policy}?wait=30s`,
    headers: { authorization: `Bearer ${token}`, "content-type": type },
    body: bytes,
  });
}

async function assess(
  watch: ControlPlaneWatch,
  tokens: Tokens,
  { text: { type, bytes, never }, how }: Sending,
  { status, body }: Answer,
): Promise<void> {
  if (how === "put by a viewer" && status !== 403 && status !== 0)
    throw new Fault(`a viewer's PUT was answered ${status}`);
  if (status === 0 || status >= 300) return;
  if (never !== undefined) throw new Fault(`taken (${status}), though it has ${never}`);
  if (how !== "put by an editor") return;
  const { applied } = JSON.parse(body);
  if (applied.refused > 0) throw new Fault(`a gateway refused what was accepted: ${body}`);
  if (type !== "application/json") return;
  const stored = await watch.send({
    method: "GET",
    path: policy,
    headers: { authorization: `Bearer ${tokens.viewer}` },
  });
  const { name: _, ...said } = { name: "", ...JSON.parse(bytes.toString("utf8").replace(/^\ufeff/, "")) };
  const { name: __, ...kept } = JSON.parse(stored.body);
  // JSON keeps one zero, as it is written.
  if (!isDeepStrictEqual(kept, JSON.parse(JSON.stringify(said))))
    throw new Fault(`another document was stored: ${stored.body.slice(0, 300)}`);
}

/** @returns the text, or hexadecimal if the bytes are not text */
function shown(bytes: Buffer): string {
  const text = bytes.toString("utf8");
  return Buffer.from(text).equals(bytes) ? JSON.stringify(text) : `hex ${bytes.toString("hex")}`;
}
