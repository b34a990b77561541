// Asks for the key that is looked up: a value for each part of the policy's key.

import { type FormEvent, useState } from "react";
import { useTranslations } from "use-intl";
import type { PolicyTerms } from "../../api/policy-terms.ts";
import { Field } from "../../parts/field.tsx";

const constant = "const:";

export function KeyForm({
  policy: { key: parts },
  asked,
  onLook,
}: {
  policy: PolicyTerms;
  asked: readonly string[] | undefined;
  onLook: (key: readonly string[]) => void;
}) {
  const t = useTranslations("keys");
  const [values, setValues] = useState<readonly string[]>(
    // A part that is a constant has no other value.
    parts.map((part, i) => (part.startsWith(constant) ? part.slice(constant.length) : (asked?.[i] ?? ""))),
  );
  const look = (event: FormEvent) => {
    event.preventDefault();
    onLook(values);
  };
  return (
    <form className="card" onSubmit={look}>
      <h2>{t("lookUp")}</h2>
      {parts.length === 0 ? <p className="quiet">{t("oneCounter")}</p> : null}
      <div className="fields">
        {parts.map((part, i) => (
          <Field key={part} label={part} help={part.startsWith("ip") ? t("anyAddress") : undefined}>
            {(input) => (
              <input
                {...input}
                value={values[i] ?? ""}
                readOnly={part.startsWith(constant)}
                autoComplete="off"
                spellCheck={false}
                onChange={(e) => setValues(values.map((value, n) => (n === i ? e.target.value : value)))}
              />
            )}
          </Field>
        ))}
      </div>
      <div className="actions">
        <span className="quiet">{t("audited")}</span>
        <button type="submit" className="main">
          {t("look")}
        </button>
      </div>
    </form>
  );
}
