// The form for a policy. It has the fields that most policies need; the YAML beside it has all.

import { algorithms } from "@sluice/limiter/document/policy-shape.ts";
import { useTranslations } from "use-intl";
import { Field } from "../../../parts/field.tsx";
import { modes } from "../policy-filter.ts";
import { type Draft, faultAt, type Json, type Path, valueAt } from "./draft.ts";
import { linesOf, numberOf, textOfLines, textOfValue, textOrNothing, useTyped } from "./typed.ts";

export interface FormProps {
  readonly draft: Draft;
  /** @param value undefined: the field is taken out */
  readonly change: (path: Path, value: unknown) => void;
}

const actions = ["reject", "delay", "degrade", "tag"] as const;
const missingKeys = ["skip", "deny", "shared"] as const;
const scopes = ["node", "cluster"] as const;
const consistencies = ["exact", "leased"] as const;

/** @param props.isNew whether the name may still be chosen */
export function PolicyForm({ draft, change, isNew }: FormProps & { isNew: boolean }) {
  const t = useTranslations("editor");
  const { document } = draft;
  const form = { draft, change };
  const limits = Array.isArray(document?.["limits"]) ? document["limits"] : [];
  const more = ["overrides", "exempt", "schedule"].filter((name) => document?.[name] !== undefined);
  return (
    <>
      <fieldset>
        <legend>{t("what")}</legend>
        <div className="fields">
          {isNew ? <Text {...form} at="name" required /> : null}
          <Text {...form} at="description" />
          <Choice {...form} at="mode" choices={modes} otherwise="enforce" />
        </div>
      </fieldset>
      <fieldset>
        <legend>{t("which")}</legend>
        <div className="fields">
          <Lines {...form} at="match.paths" />
          <Lines {...form} at="match.hosts" />
          <Lines {...form} at="match.methods" />
        </div>
      </fieldset>
      <fieldset>
        <legend>{t("whose")}</legend>
        <div className="fields">
          <Lines {...form} at="key" />
          <Choice {...form} at="onMissingKey" choices={missingKeys} otherwise="skip" />
        </div>
      </fieldset>
      <fieldset>
        <legend>{t("howMany")}</legend>
        {limits.map((limit: Json, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a limit is its place in the list
          <LimitFields key={i} {...form} index={i} limit={limit} isOnly={limits.length === 1} />
        ))}
        <button
          type="button"
          onClick={() =>
            change(
              ["limits"],
              [
                ...limits,
                { name: `limit-${limits.length + 1}`, ...{ algorithm: "token-bucket", quota: 10, window: "1s" } },
              ],
            )
          }
        >
          {t("addLimit")}
        </button>
      </fieldset>
      <fieldset>
        <legend>{t("where")}</legend>
        <div className="fields">
          <Choice {...form} at="scope" choices={scopes} otherwise="node" />
          {document?.["scope"] === "cluster" ? (
            <Choice {...form} at="consistency" choices={consistencies} otherwise="exact" />
          ) : null}
          <Choice {...form} at="onLimit.action" choices={actions} otherwise="reject" />
          <Units {...form} at="cost" />
        </div>
      </fieldset>
      {more.length === 0 ? null : <p className="quiet">{t("moreInYaml", { fields: more.join(", ") })}</p>}
    </>
  );
}

function LimitFields({
  draft,
  change,
  index,
  limit,
  isOnly,
}: FormProps & { index: number; limit: Json; isOnly: boolean }) {
  const t = useTranslations("editor");
  const form = { draft, change };
  const algorithm = limit?.["algorithm"];
  const at = `limits[${index}]`;
  const hasBurst = algorithm === "token-bucket" || algorithm === "leaky-bucket";
  return (
    <div className="limit">
      <div className="fields">
        <Choice {...form} at={`${at}.algorithm`} choices={algorithms} />
        <Units {...form} at={`${at}.quota`} />
        {algorithm === "concurrency" ? (
          <Text {...form} at={`${at}.ttl`} />
        ) : (
          <Text {...form} at={`${at}.window`} required />
        )}
        {hasBurst ? <Units {...form} at={`${at}.burst`} /> : null}
        {isOnly ? null : <Text {...form} at={`${at}.name`} />}
      </div>
      {isOnly ? null : (
        <button
          type="button"
          onClick={() => {
            const limits = draft.document?.["limits"] as unknown[];
            change(
              ["limits"],
              limits.filter((_, i) => i !== index),
            );
          }}
        >
          {t("removeLimit", { number: index + 1 })}
        </button>
      )}
    </div>
  );
}

type FieldName =
  | "name"
  | "description"
  | "mode"
  | "paths"
  | "hosts"
  | "methods"
  | "key"
  | "onMissingKey"
  | "algorithm"
  | "quota"
  | "window"
  | "burst"
  | "ttl"
  | "scope"
  | "consistency"
  | "action"
  | "cost";

interface Place extends FormProps {
  /** As in a fault, like "limits[0].quota". */
  readonly at: string;
}

function usePlace({ draft, change, at }: Place) {
  const t = useTranslations("editor");
  const path = stepsOf(at);
  const name = path.at(-1) as FieldName;
  const fault = faultAt(draft, at);
  return {
    value: draft.document === undefined ? undefined : valueAt(draft.document, path),
    set: (value: unknown) => change(path, value),
    label: t(`fields.${name}`),
    help: t(`help.${name}`),
    fault: fault === undefined ? undefined : t("shortFault", { expected: fault.expected, got: fault.got }),
  };
}

function stepsOf(at: string): Path {
  return at.split(/[.[\]]/).flatMap((step) => (step === "" ? [] : [/^\d+$/.test(step) ? Number(step) : step]));
}

function Text({ required = false, ...place }: Place & { required?: boolean }) {
  const { value, set, ...field } = usePlace(place);
  const [text, type] = useTyped(value, textOfValue, textOrNothing, set);
  return (
    <Field {...field}>
      {(input) => (
        <input {...input} type="text" required={required} value={text} onChange={(e) => type(e.target.value)} />
      )}
    </Field>
  );
}

function Units(place: Place) {
  const { value, set, ...field } = usePlace(place);
  const [text, type] = useTyped(value, textOfValue, numberOf, set);
  return (
    <Field {...field}>
      {(input) => (
        <input {...input} type="text" inputMode="numeric" value={text} onChange={(e) => type(e.target.value)} />
      )}
    </Field>
  );
}

function Lines(place: Place) {
  const { value, set, ...field } = usePlace(place);
  const [text, type] = useTyped(value, textOfLines, linesOf, set);
  return (
    <Field {...field}>
      {(input) => (
        <textarea {...input} rows={2} value={text} spellCheck={false} onChange={(e) => type(e.target.value)} />
      )}
    </Field>
  );
}

/** @param props.otherwise what holds if the document says nothing */
function Choice({ choices, otherwise, ...place }: Place & { choices: readonly string[]; otherwise?: string }) {
  const t = useTranslations("editor");
  const { value, set, ...field } = usePlace(place);
  const chosen = value === undefined ? (otherwise ?? "") : String(value);
  const all = choices.includes(chosen) ? choices : [chosen, ...choices];
  return (
    <Field {...field}>
      {(input) => (
        <select
          {...input}
          value={chosen}
          onChange={(e) => set(e.target.value === otherwise ? undefined : e.target.value)}
        >
          {all.map((choice) => (
            <option key={choice} value={choice}>
              {choices.includes(choice) ? t(`choices.${choice}` as "choices.enforce") : choice}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
