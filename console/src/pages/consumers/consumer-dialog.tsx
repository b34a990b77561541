// Adds a consumer, or gives one another plan or other limits of its own, which are written as YAML.

import { useQuery } from "@tanstack/react-query";
import { useId, useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { isMap, parse, parseDocument, stringify } from "yaml";
import type { StoredPolicy } from "../../api/policy-terms.ts";
import { type ConsumerTerms, consumerWarningsQuery, policiesQuery } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";
import { PolicyChoice } from "../../parts/policy-choice.tsx";
import { useSettled } from "../../parts/use-settled.ts";
import { visible } from "../../parts/visible.ts";
import { Warnings } from "../../parts/warnings.tsx";
import { type Consumer, useConsumerChanges } from "./use-consumer-changes.ts";

const example = "books:\n  - { name: daily, algorithm: fixed-window, quota: 5000, window: 1d }";

/** @param consumer undefined: a new one */
export function ConsumerDialog({
  app,
  consumer,
  onClose,
}: {
  app: string;
  consumer: Consumer | undefined;
  onClose: () => void;
}) {
  const t = useTranslations("consumers");
  const tell = useTell();
  const { put, remove } = useConsumerChanges(app);
  const [id, setId] = useState(consumer?.id ?? "");
  const [plan, setPlan] = useState(consumer?.plan ?? "");
  const [original] = useState(() => (consumer?.overrides === undefined ? "" : stringify(consumer.overrides)));
  const [own, setOwn] = useState(original);
  const [fault, setFault] = useState<string>();
  const offered = useId();
  const { data: policies = [] } = useQuery(policiesQuery(app));
  const ofConsumers = useMemo(() => policies.map(({ document }) => document).filter(asksForConsumers), [policies]);
  const plans = useMemo(() => plansOf(ofConsumers), [ofConsumers]);
  const isChanged = plan !== (consumer?.plan ?? "") || own !== original;
  const settled = useSettled(isChanged ? JSON.stringify({ id, plan, own }) : "");
  const { data: warnings = [] } = useQuery(consumerWarningsQuery(app, termsIn(settled)));
  const act = async () => {
    setFault(undefined);
    const read = limitsIn(own);
    if ("fault" in read) {
      setFault(read.fault);
      return false;
    }
    const terms = { plan, ...(read.overrides === undefined ? {} : { overrides: read.overrides }) };
    const { applied, etag } = await put(id, terms, consumer?.etag);
    const undo = async () => {
      if (consumer === undefined) await remove(id, etag);
      else await put(id, consumer, etag);
    };
    const text = t("stored", { id: visible(id), plan, have: applied?.acked ?? 0, of: applied?.gateways ?? 0 });
    tell({ text, undo });
    return true;
  };
  return (
    <Confirmation
      title={consumer === undefined ? t("addTitle") : t("changeTitle", { id: visible(id) })}
      action={t("store")}
      isChanged={isChanged}
      act={act}
      onClose={onClose}
    >
      <p>{t("means")}</p>
      {consumer === undefined ? (
        <>
          <Field label={t("id")} help={t("idHelp")}>
            {(input) => <input {...input} value={id} spellCheck={false} onChange={(e) => setId(e.target.value)} />}
          </Field>
          <p className="quiet">{t("importHint")}</p>
        </>
      ) : null}
      <Field label={t("plan")} help={t("planHelp")}>
        {(input) => (
          <>
            <input
              {...input}
              list={offered}
              value={plan}
              spellCheck={false}
              onChange={(e) => setPlan(e.target.value)}
            />
            <datalist id={offered}>
              {plans.map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field label={t("ownLimits")} help={t("ownLimitsHelp")} fault={fault}>
        {(input) => (
          <textarea
            {...input}
            className="code"
            rows={original === "" ? 4 : 10}
            spellCheck={false}
            placeholder={example}
            value={own}
            onChange={(e) => setOwn(e.target.value)}
          />
        )}
      </Field>
      <LimitsOfPolicy app={app} policies={ofConsumers} plan={plan} own={own} onInsert={setOwn} />
      <div role="status">
        <Warnings warnings={warnings} />
      </div>
    </Confirmation>
  );
}

type Overrides = Record<string, never>;

/** @returns what the YAML says; undefined: nothing */
function limitsIn(yaml: string): { readonly overrides: Overrides | undefined } | { readonly fault: string } {
  try {
    const overrides = parse(yaml) ?? undefined;
    // An alias may refer to its own parent; such a value cannot be sent.
    JSON.stringify(overrides);
    return { overrides };
  } catch (failure) {
    return { fault: failure instanceof Error ? failure.message : String(failure) };
  }
}

/** @param typed JSON of what the form has; empty: nothing new @returns the consumer; undefined: there is none yet */
function termsIn(typed: string): ConsumerTerms | undefined {
  const { id, plan, own } = typed === "" ? { id: "", plan: "", own: "" } : JSON.parse(typed);
  const read = limitsIn(own);
  if (id === "" || plan === "" || "fault" in read) return undefined;
  return { id, plan, ...(read.overrides === undefined ? {} : { overrides: read.overrides }) };
}

function plansOf(policies: readonly StoredPolicy[]): readonly string[] {
  return [...new Set(policies.flatMap(({ plans = {} }) => Object.keys(plans)))].sort();
}

const asksForConsumers = ({ planBy }: StoredPolicy) => planBy === "consumer";

/** Writes the limits of a policy into the consumer's own, to be changed. */
function LimitsOfPolicy({
  app,
  policies,
  plan,
  own,
  onInsert,
}: {
  app: string;
  policies: readonly StoredPolicy[];
  plan: string;
  own: string;
  onInsert: (own: string) => void;
}) {
  const t = useTranslations("consumers");
  const [name, setName] = useState("");
  const policy = policies.find((one) => one.name === name);
  const yaml = parseDocument(own);
  const isOpen = yaml.errors.length === 0 && (yaml.contents === null || isMap(yaml.contents)) && !yaml.has(name);
  const insert = ({ plans = {}, defaultPlan = "" }: StoredPolicy) => {
    yaml.set(name, Object.hasOwn(plans, plan) ? plans[plan] : plans[defaultPlan]);
    onInsert(String(yaml));
    setName("");
  };
  if (policies.length === 0) return null;
  return (
    <div className="actions">
      <PolicyChoice app={app} policy={name} onChoose={setName} label={t("begin")} isOffered={asksForConsumers} />
      <button
        type="button"
        disabled={policy === undefined || !isOpen}
        onClick={() => policy !== undefined && insert(policy)}
      >
        {t("insert")}
      </button>
    </div>
  );
}
