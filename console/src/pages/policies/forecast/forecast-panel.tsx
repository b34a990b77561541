// What a policy would do to traffic of a shape that one picks, draws, or takes from the last hour: computed in the browser, by the limiter
// itself, beside what is in force.

import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useId, useMemo, useState } from "react";
import { useFormatter, useTranslations } from "use-intl";
import { withTemplates } from "../../../api/policy-terms.ts";
import { libraryQuery, recordedQuery, templatesQuery } from "../../../api/queries.ts";
import type { ForecastRequest } from "../../../forecast/forecast.ts";
import type { Simulation } from "../../../forecast/simulate.ts";
import { Field } from "../../../parts/field.tsx";
import type { Json } from "../editor/draft.ts";
import { ClientView } from "./client-view.tsx";
import "./forecast.css";
import { ForecastChart } from "./forecast-chart.tsx";
import {
  askedSeconds,
  type Chosen,
  durations,
  offerOf,
  type ShapeKind,
  shapeKinds,
  suggestedFor,
} from "./offered-traffic.ts";
import { useForecast } from "./use-forecast.ts";

const binCount = 120;
/** How long a request is assumed to take, for limits of concurrency. */
const requestMs = 200;

export function ForecastPanel({
  app,
  draft,
  inForce,
}: {
  app: string;
  /** Valid, or undefined. */
  draft: Json | undefined;
  inForce: Json | undefined;
}) {
  const t = useTranslations("forecast");
  const format = useFormatter();
  const [chosen, setChosen] = useState<Chosen>();
  const shown = chosen ?? suggestedFor(draft ?? inForce ?? {});
  const change = (part: Partial<Chosen>) => setChosen({ ...shown, ...part });
  const name = typeof inForce?.["name"] === "string" ? inForce["name"] : undefined;
  const { data: recorded } = useQuery({ ...recordedQuery(app, name ?? ""), enabled: name !== undefined });
  const [nowMs] = useState(() => Date.now());
  const { data: templates = [] } = useQuery(templatesQuery(app));
  const { data: library = [] } = useQuery(libraryQuery);
  const whole = (document: Json | undefined) =>
    document === undefined ? null : withTemplates(document, templates, library);
  const wanted = JSON.stringify([whole(draft), whole(inForce), shown, recorded ?? []]);
  const deferred = useDeferredValue(wanted);
  const request = useMemo((): ForecastRequest | undefined => {
    const [document, stored, offered, minutes] = JSON.parse(deferred);
    if (document === null) return undefined;
    return {
      draft: document,
      inForce: stored ?? undefined,
      offer: offerOf(offered, document, minutes, nowMs),
      requestMs,
      binCount,
      withDecisions: true,
    };
  }, [deferred, nowMs]);
  const { forecasted, hasFailed } = useForecast(request);
  const result = hasFailed ? undefined : forecasted?.result;
  const isBusy = wanted !== deferred || (request !== undefined && !hasFailed && forecasted?.request !== request);
  const isPart =
    forecasted !== undefined && forecasted.request.offer.durationSeconds < askedSeconds(shown, recorded ?? []);
  return (
    <section className="card forecast" aria-label={t("title")} aria-busy={isBusy}>
      <h2>{t("title")}</h2>
      <p className="quiet">
        {t("how")} {t("limits")}
      </p>
      <div className="fields">
        <Field label={t("shape")}>
          {(input) => (
            <select {...input} value={shown.kind} onChange={(e) => change({ kind: e.target.value as ShapeKind })}>
              {shapeKinds.map((kind) => (
                <option key={kind} value={kind} disabled={kind === "recorded" && (recorded ?? []).length === 0}>
                  {t(`shapes.${kind}`)}
                </option>
              ))}
            </select>
          )}
        </Field>
        {shown.kind === "recorded" ? null : (
          <>
            <NumberField label={t("perSecond")} value={shown.perSecond} change={(perSecond) => change({ perSecond })} />
            <Field label={t("duration")}>
              {(input) => (
                <select
                  {...input}
                  value={shown.durationSeconds}
                  onChange={(e) => change({ durationSeconds: Number(e.target.value) })}
                >
                  {durations.map((seconds) => (
                    <option key={seconds} value={seconds}>
                      {t(`durations.${seconds}`)}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          </>
        )}
        <NumberField label={t("clients")} value={shown.clients} change={(clients) => change({ clients })} />
      </div>
      {shown.kind === "drawn" ? <Drawing heights={shown.drawn} change={(drawn) => change({ drawn })} /> : null}
      {draft === undefined ? <p className="quiet">{t("mendFirst")}</p> : null}
      {hasFailed ? (
        <p className="warning" role="alert">
          {t("failed")}
        </p>
      ) : null}
      {result?.draft === undefined ? null : (
        <>
          <ForecastChart label={t("chart")} draft={result.draft.bins} inForce={result.inForce?.bins} />
          <dl className="figures" aria-live="polite">
            <div>
              <dt>{t("offered")}</dt>
              <dd>{format.number(result.atUs.length)}</dd>
            </div>
            <Figures label={t("thisDraft")} simulation={result.draft} />
            {result.inForce === undefined ? null : <Figures label={t("inForce")} simulation={result.inForce} />}
          </dl>
          {isPart ? (
            <p className="warning">
              {t("part", {
                seconds: format.number(forecasted.request.offer.durationSeconds, { maximumFractionDigits: 1 }),
              })}
            </p>
          ) : null}
          <p className="quiet">{t("took", { milliseconds: Math.round(forecasted?.tookMs ?? 0) })}</p>
          {forecasted === undefined ? null : <ClientView forecasted={forecasted} />}
        </>
      )}
    </section>
  );
}

function Figures({ label, simulation: { totals } }: { label: string; simulation: Simulation }) {
  const t = useTranslations("forecast");
  const refused = totals.refused + totals.denied;
  const goesOn = totals.ignored + totals.admitted + totals.delayed + totals.marked + totals["would-refuse"];
  return (
    <div>
      <dt>{label}</dt>
      <dd>{t("admits", { admitted: goesOn, refused })}</dd>
      {totals.delayed > 0 ? <dd className="quiet">{t("delayed", { count: totals.delayed })}</dd> : null}
      {totals["would-refuse"] > 0 ? (
        <dd className="quiet">{t("wouldRefuse", { count: totals["would-refuse"] })}</dd>
      ) : null}
    </div>
  );
}

function NumberField({ label, value, change }: { label: string; value: number; change: (value: number) => void }) {
  const t = useTranslations("forecast");
  const [typed, setTyped] = useState<string>();
  const text = typed !== undefined && Number(typed) === value ? typed : `${Math.round(value * 1_000) / 1_000}`;
  const [isWrong, setIsWrong] = useState(false);
  return (
    <Field label={label} fault={isWrong ? t("wrongNumber") : undefined}>
      {(input) => (
        <input
          {...input}
          type="text"
          inputMode="decimal"
          value={isWrong ? (typed ?? "") : text}
          onChange={(e) => {
            const number = Number(e.target.value);
            const isGood = e.target.value.trim() !== "" && Number.isFinite(number) && number > 0;
            setTyped(e.target.value);
            setIsWrong(!isGood);
            if (isGood) change(number);
          }}
        />
      )}
    </Field>
  );
}

/** Draws by sliders, so that it works by keyboard, too. */
function Drawing({ heights, change }: { heights: readonly number[]; change: (heights: number[]) => void }) {
  const t = useTranslations("forecast");
  const id = useId();
  return (
    <fieldset className="drawing">
      <legend>{t("draw")}</legend>
      {heights.map((height, i) => (
        <input
          // biome-ignore lint/suspicious/noArrayIndexKey: a height is its place in time
          key={`${id} ${i}`}
          type="range"
          min={0}
          max={100}
          value={height}
          aria-label={t("height", { number: i + 1, of: heights.length })}
          onChange={(e) => change(heights.map((one, place) => (place === i ? Number(e.target.value) : one)))}
        />
      ))}
    </fieldset>
  );
}
