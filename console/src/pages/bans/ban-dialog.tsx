// Asks for how long, and why, a key or a network is banned, and says what that does.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import type { PolicyTerms } from "../../api/policy-terms.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";
import { visible } from "../../parts/visible.ts";

/** How long the answer waits for gateways. */
const wait = "5s";
const durations = ["10m", "1h", "1d", "7d", "30d", "365d"] as const;

/** What is banned: a key of a policy; or, undefined, a network that the dialog asks for. */
export type Banned = { readonly policy: PolicyTerms; readonly key: readonly string[] } | undefined;

export function BanDialog({ app, banned, onClose }: { app: string; banned: Banned; onClose: () => void }) {
  const t = useTranslations("bans");
  const tell = useTell();
  const cache = useQueryClient();
  const [duration, setDuration] = useState<string>("1h");
  const [reason, setReason] = useState("");
  const [cidr, setCidr] = useState("");
  const what = banned === undefined ? { cidr: cidr.trim() } : { policy: banned.policy.name, key: [...banned.key] };
  const name = banned === undefined ? t("network") : banned.key.map(visible).join(" · ");
  const act = async () => {
    const ban = await answerOf(
      api.POST("/api/v1/apps/{app}/bans", {
        params: { path: { app }, query: { wait } },
        body: { ...what, for: duration, ...(reason === "" ? {} : { reason }) },
      }),
    );
    const seen = () => cache.invalidateQueries({ queryKey: ["bans", app] });
    await seen();
    const undo = async () => {
      await answerOf(
        api.DELETE("/api/v1/apps/{app}/bans/{ban}", { params: { path: { app, ban: ban.id }, query: { wait } } }),
      );
      await seen();
    };
    const counts = { have: ban.applied?.acked ?? 0, of: ban.applied?.gateways ?? 0 };
    tell({ text: t("banned", { what: ban.cidr ?? name, ...counts }), undo });
  };
  return (
    <Confirmation title={t("banTitle", { what: name })} action={t("ban")} destructive act={act} onClose={onClose}>
      <p>{t(banned === undefined ? (app === "default" ? "meansEverywhere" : "meansRealm") : "meansKey")}</p>
      {banned !== undefined && banned.policy.mode !== "enforce" ? <p className="bad">{t("notEnforced")}</p> : null}
      {banned === undefined ? (
        <Field label={t("cidr")} help={t("cidrHelp")}>
          {(input) => <input {...input} value={cidr} spellCheck={false} onChange={(e) => setCidr(e.target.value)} />}
        </Field>
      ) : null}
      <Field label={t("for")}>
        {(input) => (
          <select {...input} value={duration} onChange={(e) => setDuration(e.target.value)}>
            {durations.map((one) => (
              <option key={one} value={one}>
                {t(`durations.${one}`)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={t("reason")} help={t("reasonHelp")}>
        {(input) => <input {...input} value={reason} maxLength={500} onChange={(e) => setReason(e.target.value)} />}
      </Field>
    </Confirmation>
  );
}
