// Fields of a form that stand for a place in the policy's document.

import { useTranslations } from "use-intl";
import { Field } from "../../../parts/field.tsx";
import { useExpectation } from "../../../settings/language.tsx";
import { type Draft, faultAt, type Path, valueAt } from "./draft.ts";
import { linesOf, numberOf, textOfLines, textOfValue, textOrNothing, useTyped } from "./typed.ts";

type FieldName =
  | "name"
  | "description"
  | "mode"
  | "paths"
  | "hosts"
  | "methods"
  | "key"
  | "secret"
  | "onMissingKey"
  | "algorithm"
  | "quota"
  | "window"
  | "burst"
  | "initial"
  | "warmUp"
  | "ttl"
  | "scope"
  | "consistency"
  | "action"
  | "cost"
  | "headers"
  | "priority"
  | "sharedWith"
  | "exemptAddresses"
  | "exemptKeys"
  | "timezone"
  | "anchor"
  | "windowTimezone"
  | "planBy"
  | "defaultPlan"
  | "windows"
  | "overrideKey"
  | "overrideMode"
  | "status"
  | "body"
  | "responseHeaders"
  | "maxDelay"
  | "uri"
  | "header"
  | "template";

export interface FormProps {
  readonly draft: Draft;
  /** @param value undefined: the field is taken out */
  readonly change: (path: Path, value: unknown) => void;
}

interface Place extends FormProps {
  /** As in a fault, like "limits[0].quota". */
  readonly at: string;
  /** What its label is called after. Absent: the last part of its place. */
  readonly word?: FieldName;
}

function usePlace({ draft, change, at, word }: Place) {
  const t = useTranslations("editor");
  const say = useExpectation();
  const path = stepsOf(at);
  const name = word ?? (path.at(-1) as FieldName);
  const fault = faultAt(draft, at);
  return {
    value: draft.document === undefined ? undefined : valueAt(draft.document, path),
    set: (value: unknown) => change(path, value),
    label: t(`fields.${name}`),
    help: t(`help.${name}`),
    fault: fault === undefined ? undefined : t("shortFault", { expected: say(fault.expected), got: say(fault.got) }),
  };
}

/** @param at as in a fault, like "limits[0].quota" */
export function stepsOf(at: string): Path {
  return at.split(/[.[\]]/).flatMap((step) => (step === "" ? [] : [/^\d+$/.test(step) ? Number(step) : step]));
}

export function Text({ required = false, ...place }: Place & { required?: boolean }) {
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

export function Units(place: Place) {
  return <NumberOrText {...place} inputMode="numeric" />;
}

/** A number in digits is one in the document; everything else is a text. */
export function NumberOrText({ inputMode = "text", ...place }: Place & { inputMode?: "numeric" | "text" }) {
  const { value, set, ...field } = usePlace(place);
  const [text, type] = useTyped(value, textOfValue, numberOf, set);
  return (
    <Field {...field}>
      {(input) => (
        <input {...input} type="text" inputMode={inputMode} value={text} onChange={(e) => type(e.target.value)} />
      )}
    </Field>
  );
}

export function Lines(place: Place) {
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
export function Choice({ choices, otherwise, ...place }: Place & { choices: readonly string[]; otherwise?: string }) {
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

/** A value that is written as text, in a form of its own. */
export function Written({
  textOf,
  read,
  rows = 2,
  ...place
}: Place & { textOf: (value: unknown) => string; read: (text: string) => unknown; rows?: number }) {
  const { value, set, ...field } = usePlace(place);
  const [text, type] = useTyped(value, textOf, read, set);
  return (
    <Field {...field}>
      {(input) => (
        <textarea {...input} rows={rows} value={text} spellCheck={false} onChange={(e) => type(e.target.value)} />
      )}
    </Field>
  );
}
