// Edits a policy, by a form and as YAML side by side, and stores it: as it is, in shadow mode, or as a dry run.

import { useQueryClient } from "@tanstack/react-query";
import { Link, useBlocker, useRouter } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { useFormatter, useTranslations } from "use-intl";
import { isLeavingPage } from "../../../api/client.ts";
import { policyQuery } from "../../../api/queries.ts";
import { Boundary } from "../../../parts/boundary.tsx";
import { Dialog } from "../../../parts/dialog.tsx";
import { useTell } from "../../../parts/notices.tsx";
import { Refusal } from "../../../parts/refusal.tsx";
import { Warnings } from "../../../parts/warnings.tsx";
import { ForecastPanel } from "../forecast/forecast-panel.tsx";
import { Applied } from "./applied.tsx";
import { ConflictDialog } from "./conflict-dialog.tsx";
import { type Draft, draftOf, draftOfText, type Fault, type Json, withField } from "./draft.ts";
import "./editor.css";
import { useExpectation } from "../../../settings/language.tsx";
import { isSame } from "./merge.ts";
import { PolicyForm } from "./policy-form.tsx";
import { isConflict, isMissing, type Rehearsal, rehearse, remove, type Stored, store } from "./policy-store.ts";
import { YamlEditor } from "./yaml-editor.tsx";

/** A stored version of the policy. */
export interface Version {
  readonly document: Json;
  readonly etag: string;
}

export interface EditorProps {
  readonly app: string;
  /** What is stored; undefined: the policy is new. */
  readonly inForce: Version | undefined;
  /** What the editor begins with. */
  readonly beginning: Json;
  readonly mayEdit: boolean;
  /** Called when it is stored for the first time. */
  readonly onCreated?: (name: string, revision: number) => void;
  /** The revision that it was stored in before the page was opened. */
  readonly justStored?: number;
}

type Mode = "enforce" | "shadow" | "off";

export function PolicyEditor({ app, inForce, beginning, mayEdit, onCreated, justStored }: EditorProps) {
  const t = useTranslations("editor");
  const format = useFormatter();
  const tell = useTell();
  const cache = useQueryClient();
  const router = useRouter();
  const [draft, setDraft] = useState(() => draftOf(beginning));
  const newest = useRef(draft);
  newest.current = draft;
  /** What the draft was made from: changes of others since are found by it. */
  const [base, setBase] = useState(inForce);
  const [stored, setStored] = useState<Stored>();
  const [error, setError] = useState<unknown>();
  const [isStoring, setIsStoring] = useState(false);
  const [theirs, setTheirs] = useState<Version>();
  /** What somebody else did meanwhile, so that it cannot be stored as it is. */
  const [obstacle, setObstacle] = useState<"deleted" | "taken">();
  const [rehearsal, setRehearsal] = useState<Rehearsal>();

  const name = base === undefined ? textOf(draft.document?.["name"]) : textOf(base.document["name"]);
  const faults = useMemo(() => [...draft.faults, ...renamed(draft, base)], [draft, base]);
  const isDirty = draft.document === undefined || !isSame(draft.document, base?.document ?? beginning);
  const hasNews = isDirty || base === undefined;
  const shownRevision = stored?.revision ?? justStored;
  const mode = (draft.document?.["mode"] ?? "enforce") as Mode;

  useBlocker({
    shouldBlockFn: () => mayEdit && isDirty && !isStoring && !window.confirm(t("leave")),
    enableBeforeUnload: () => mayEdit && isDirty && !isLeavingPage(),
  });

  const seen = async (changedName: string) => {
    await cache.invalidateQueries({ queryKey: ["policies", app] });
    await cache.invalidateQueries({ queryKey: ["policies", app, changedName] });
  };

  // Somebody else has stored it: it is shown at once, unless something was typed here.
  const changedMeanwhile = inForce !== undefined && base !== undefined && isNewer(inForce.etag, base.etag);
  useEffect(() => {
    if (!changedMeanwhile || isDirty || isStoring) return;
    setBase(inForce);
    setDraft(draftOf(inForce.document));
    setStored(undefined);
  }, [changedMeanwhile, isDirty, isStoring, inForce]);

  const undo = (former: Version | undefined, now: Stored, document: Json) => async () => {
    if (former === undefined) {
      await remove(app, name, now.etag);
      await router.navigate({ to: "/policies", search: { app } });
    } else {
      const again = await store(app, name, former.document, now.etag);
      setBase({ document: former.document, etag: again.etag });
      // What was typed since stays.
      setDraft((old) => (isSame(old.document, document) ? draftOf(former.document) : old));
      setStored(again);
    }
    await seen(name);
  };

  const save = async (as: Mode) => {
    const changed = as === mode ? draft : withField(draft, ["mode"], as === "enforce" ? undefined : as);
    if (changed.document === undefined) return;
    setIsStoring(true);
    setError(undefined);
    setObstacle(undefined);
    try {
      const now = await store(app, name, changed.document, base?.etag);
      // What was typed since is not stored, and stays.
      const isWhole = newest.current === draft;
      tell({
        text: t(`stored.${as}`, { name, revision: format.number(now.revision, { useGrouping: false }) }),
        undo: undo(base, now, changed.document),
      });
      setStored(now);
      setBase({ document: changed.document, etag: now.etag });
      setDraft((old) => (as === mode ? old : withField(old, ["mode"], as === "enforce" ? undefined : as)));
      await seen(name);
      if (base === undefined && isWhole) onCreated?.(name, now.revision);
    } catch (failure) {
      await showFailure(failure);
    } finally {
      setIsStoring(false);
    }
  };

  const showFailure = async (failure: unknown) => {
    if (!isConflict(failure)) setError(failure);
    else if (base === undefined) setObstacle("taken");
    else await showTheirs();
  };

  const showTheirs = async () => {
    try {
      setTheirs(versionOf(await cache.fetchQuery({ ...policyQuery(app, name), staleTime: 0 })));
    } catch (failure) {
      if (!isMissing(failure)) return setError(failure);
      setBase(undefined);
      setObstacle("deleted");
    }
  };

  const dryRun = async () => {
    if (draft.document === undefined) return;
    setError(undefined);
    setObstacle(undefined);
    try {
      setRehearsal(await rehearse(app, name, draft.document, base?.etag));
    } catch (failure) {
      await showFailure(failure);
    }
  };

  const cannot = isStoring || faults.length > 0;
  return (
    <section className="editor" aria-label={t("title")}>
      <div className="sides">
        <fieldset className="card form" disabled={!mayEdit || draft.document === undefined} aria-label={t("form")}>
          <h2>{t("form")}</h2>
          {draft.document === undefined ? <p className="fault">{t("unreadable")}</p> : null}
          <Boundary of={draft} fallback={<p className="fault">{t("unreadable")}</p>}>
            <PolicyForm
              draft={draft}
              isNew={base === undefined}
              change={(path, value) => setDraft((old) => withField(old, path, value))}
            />
          </Boundary>
        </fieldset>
        <div className="side">
          <div className="card">
            <h2>{t("yaml")}</h2>
            <YamlEditor draft={draft} isReadOnly={!mayEdit} onText={(text) => setDraft(draftOfText(text))} />
            <Faults faults={faults} />
            {hasNews ? <Warnings warnings={draft.warnings} /> : null}
          </div>
          <ForecastPanel app={app} draft={forecastable(draft, faults)} inForce={base?.document} />
        </div>
      </div>
      {error === undefined ? null : <Refusal error={error} />}
      {changedMeanwhile && isDirty && !isStoring ? (
        <div className="warning" role="status">
          {t("changedMeanwhile")}{" "}
          <button type="button" onClick={() => void showTheirs()}>
            {t("compare")}
          </button>
        </div>
      ) : null}
      {obstacle === undefined ? null : (
        <p className="warning" role="alert">
          {t(`obstacles.${obstacle}`, { name })}{" "}
          {obstacle === "taken" ? (
            <Link to="/policies/$app/$policy" params={{ app, policy: name }}>
              {t("openOther", { name })}
            </Link>
          ) : null}
        </p>
      )}
      {shownRevision === undefined ? null : <Applied revision={shownRevision} />}
      {hasNews ? null : <Warnings warnings={stored?.warnings ?? []} />}
      {mayEdit ? (
        <div className="card save">
          <p className="quiet">{t(base === undefined ? "willCreate" : isDirty ? "willReplace" : "unchanged")}</p>
          <div className="actions">
            <button type="button" disabled={cannot || !hasNews} onClick={() => void dryRun()}>
              {t("dryRun")}
            </button>
            <button
              type="button"
              disabled={cannot || (!hasNews && mode === "shadow")}
              onClick={() => void save("shadow")}
            >
              {t("saveShadow")}
            </button>
            {mode === "off" ? (
              <button type="button" disabled={cannot || !hasNews} onClick={() => void save("off")}>
                {t("saveOff")}
              </button>
            ) : null}
            <button
              type="button"
              className="main"
              disabled={cannot || (!hasNews && mode === "enforce")}
              onClick={() => void save("enforce")}
            >
              {t("saveEnforced")}
            </button>
          </div>
        </div>
      ) : (
        <p className="quiet">{t("mayNot", { app })}</p>
      )}
      {theirs === undefined || base === undefined ? null : (
        <ConflictDialog
          base={base.document}
          mine={draft.document ?? {}}
          theirs={theirs.document}
          onMerged={(merged) => {
            setBase(theirs);
            setDraft(draftOf(merged));
            setTheirs(undefined);
          }}
          onClose={() => setTheirs(undefined)}
        />
      )}
      {rehearsal === undefined ? null : (
        <RehearsalDialog rehearsal={rehearsal} onClose={() => setRehearsal(undefined)} />
      )}
    </section>
  );
}

function Faults({ faults }: { faults: readonly Fault[] }) {
  const t = useTranslations("editor");
  const say = useExpectation();
  const shown = 5;
  return (
    <div role="status" className="faults">
      {faults.length === 0 ? <p className="good">{t("valid")}</p> : null}
      {faults.slice(0, shown).map((fault) => (
        <p key={`${fault.path} ${fault.expected}`} className="fault">
          {fault.got === ""
            ? fault.expected
            : t("fault", {
                path: fault.path === "" ? t("document") : fault.path,
                expected: say(fault.expected),
                got: say(fault.got),
              })}
        </p>
      ))}
      {faults.length > shown ? <p className="fault">{t("moreFaults", { count: faults.length - shown })}</p> : null}
    </div>
  );
}

function RehearsalDialog({ rehearsal: { changes, gateways }, onClose }: { rehearsal: Rehearsal; onClose: () => void }) {
  const t = useTranslations("editor");
  return (
    <Dialog title={t("dryRunTitle")} onClose={onClose}>
      <p>{changes.length === 0 ? t("nothingChanges") : t("wouldChange", { count: gateways.length })}</p>
      {changes.map(({ kind, name, text }) => (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        <pre key={`${kind} ${name}`} tabIndex={0}>
          {text}
        </pre>
      ))}
      <div className="actions">
        <button type="button" className="main" onClick={onClose}>
          {t("close")}
        </button>
      </div>
    </Dialog>
  );
}

/** A policy keeps its name: with another name it would be another policy. */
function renamed(draft: Draft, base: Version | undefined): Fault[] {
  const { document } = draft;
  const name = base?.document["name"];
  if (base === undefined || document === undefined || document["name"] === undefined || document["name"] === name)
    return [];
  return [{ path: "name", expected: `"${name}"`, got: JSON.stringify(document["name"]), from: 0, to: 0 }];
}

/** A forecast needs no name, with which one begins last. */
function forecastable({ document }: Draft, faults: readonly Fault[]): Json | undefined {
  if (faults.length === 0) return document;
  return faults.every(({ path }) => path === "name") ? { ...document, name: "policy" } : undefined;
}

/** Versions are revisions, which only grow. */
function isNewer(etag: string, than: string): boolean {
  const [a, b] = [etag, than].map((one) => Number(one.replace(/\D/g, "")));
  return (a ?? 0) > (b ?? 0);
}

export function versionOf({ document, etag }: { document: object; etag: string }): Version {
  return { document: document as Json, etag };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
