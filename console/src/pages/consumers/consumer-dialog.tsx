// Adds a consumer, or gives one another plan or other limits of its own, which are written as YAML.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { useTranslations } from "use-intl";
import { parse, stringify } from "yaml";
import { answerOf, api, type Schemas } from "../../api/client.ts";
import type { StoredPolicy } from "../../api/policy-terms.ts";
import { consumerWarningsQuery, policiesQuery } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";
import { useSettled } from "../../parts/use-settled.ts";
import { visible } from "../../parts/visible.ts";
import { Warnings } from "../../parts/warnings.tsx";

/** How long the answer waits for gateways. */
const wait = "5s";
const example = "books:\n  - { name: daily, algorithm: fixed-window, quota: 5000, window: 1d }";

/** @param consumer undefined: a new one */
export function ConsumerDialog({
  app,
  consumer,
  onClose,
}: {
  app: string;
  consumer: Schemas["Consumer"] | undefined;
  onClose: () => void;
}) {
  const t = useTranslations("consumers");
  const tell = useTell();
  const cache = useQueryClient();
  const [id, setId] = useState(consumer?.id ?? "");
  const [plan, setPlan] = useState(consumer?.plan ?? "");
  const [original] = useState(() => (consumer?.overrides === undefined ? "" : stringify(consumer.overrides)));
  const [own, setOwn] = useState(original);
  const [fault, setFault] = useState<string>();
  const offered = useId();
  const { data: policies = [] } = useQuery(policiesQuery(app));
  const ofConsumers = policies.map(({ document }) => document).filter(({ planBy }) => planBy === "consumer");
  const isChanged = plan !== (consumer?.plan ?? "") || own !== original;
  const typed = useSettled(JSON.stringify({ id, plan, own: readable(own) }));
  const { data: warnings = [] } = useQuery(consumerWarningsQuery(app, typed, isChanged && id !== "" && plan !== ""));
  const act = async () => {
    setFault(undefined);
    let overrides: unknown;
    try {
      overrides = parse(own) ?? undefined;
    } catch (failure) {
      setFault(failure instanceof Error ? failure.message : String(failure));
      return false;
    }
    const { applied } = await answerOf(
      api.PUT("/api/v1/apps/{app}/consumers/{consumer}", {
        params: { path: { app, consumer: id }, query: { wait } },
        body: { plan, ...(overrides === undefined ? {} : { overrides: overrides as Record<string, never> }) },
      }),
    );
    await cache.invalidateQueries({ queryKey: ["consumers", app] });
    tell({ text: t("stored", { id: visible(id), plan, have: applied?.acked ?? 0, of: applied?.gateways ?? 0 }) });
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
              {plansOf(ofConsumers).map((name) => (
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
      {ofConsumers.length === 0 ? null : (
        <label className="choice">
          {t("begin")}
          <select value="" onChange={(e) => setOwn(withLimitsOf(own, ofConsumers, e.target.value, plan))}>
            <option value="">{t("choose")}</option>
            {ofConsumers
              .filter(({ name }) => !own.includes(`${name}:`))
              .map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
          </select>
        </label>
      )}
      <Warnings warnings={warnings} />
    </Confirmation>
  );
}

/** Returns what the YAML says, or null: it is not whole yet. */
function readable(own: string): unknown {
  try {
    return parse(own) ?? {};
  } catch {
    return null;
  }
}

function plansOf(policies: readonly StoredPolicy[]): readonly string[] {
  return [...new Set(policies.flatMap(({ plans = {} }) => Object.keys(plans)))].sort();
}

/** Returns the YAML with the limits that a policy's plan has, to be changed. */
function withLimitsOf(own: string, policies: readonly StoredPolicy[], name: string, plan: string): string {
  const { plans = {}, defaultPlan = "" } = policies.find((policy) => policy.name === name) ?? {};
  const limits = Object.hasOwn(plans, plan) ? plans[plan] : plans[defaultPlan];
  const before = own.trim() === "" ? "" : `${own.trimEnd()}\n`;
  return before + stringify({ [name]: limits });
}
