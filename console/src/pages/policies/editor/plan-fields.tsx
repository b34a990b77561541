// Plans: for each what a client has bought, limits of its own.

import { isName } from "@sluice/limiter/document/policy-shape.ts";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { Field } from "../../../parts/field.tsx";
import { type FormProps, Text } from "./document-fields.tsx";
import type { Json } from "./draft.ts";
import { LimitList } from "./limit-fields.tsx";

const firstPlan = "free";

/** Makes the policy's limits those of its first plan. */
export function UsePlans({ draft, change }: FormProps) {
  const t = useTranslations("editor");
  return (
    <button
      type="button"
      onClick={() => {
        change(["plans"], { [firstPlan]: draft.document?.["limits"] });
        change(["limits"], undefined);
        change(["planBy"], "header:x-plan");
        change(["defaultPlan"], firstPlan);
      }}
    >
      {t("usePlans")}
    </button>
  );
}

export function Plans(form: FormProps) {
  const { draft, change } = form;
  const t = useTranslations("editor");
  const plans = plansOf(draft.document);
  const names = Object.keys(plans);
  return (
    <>
      <div className="fields">
        <Text {...form} at="planBy" required />
        <Text {...form} at="defaultPlan" required />
      </div>
      {names.map((name) => (
        <fieldset key={name}>
          <legend>{t("plan", { name })}</legend>
          <LimitList {...form} at={`plans.${name}`} />{" "}
          {names.length === 1 ? null : (
            <button type="button" onClick={() => change(["plans", name], undefined)}>
              {t("removePlan", { name })}
            </button>
          )}
        </fieldset>
      ))}
      <AddPlan
        taken={names}
        add={(name) => {
          const first = plans[names[0] ?? ""] ?? [];
          change(["plans", name], structuredClone(first));
        }}
      />
    </>
  );
}

/** @param props.add called with a name that no plan has */
function AddPlan({ taken, add }: { taken: readonly string[]; add: (name: string) => void }) {
  const t = useTranslations("editor");
  const [name, setName] = useState("");
  const isTaken = taken.includes(name);
  const fault = name === "" || (isName(name) && !isTaken) ? undefined : t(isTaken ? "planTaken" : "planName");
  return (
    <div className="fields">
      <Field label={t("fields.plan")} help={t("help.plan")} fault={fault}>
        {(input) => <input {...input} type="text" value={name} onChange={(e) => setName(e.target.value)} />}
      </Field>
      <button
        type="button"
        disabled={name === "" || fault !== undefined}
        onClick={() => {
          add(name);
          setName("");
        }}
      >
        {t("addPlan")}
      </button>
    </div>
  );
}

function plansOf(document: Json | undefined): Readonly<Record<string, unknown>> {
  const plans = document?.["plans"];
  return typeof plans === "object" && plans !== null ? (plans as Record<string, unknown>) : {};
}
