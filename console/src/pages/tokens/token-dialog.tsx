// Makes a token, and shows it once: it can never be read again.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { appsQuery, sessionQuery } from "../../api/queries.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { Refusal } from "../../parts/refusal.tsx";
import { rightsOf } from "../../parts/rights.ts";

const roles = ["viewer", "editor", "owner", "caller"] as const;
type Role = (typeof roles)[number];
const lifetimes = ["1d", "30d", "90d", "365d", ""] as const;

/** Stands for the person who is signed in, which no name of an app can be. */
const oneself = "@";

export function TokenDialog({ onClose }: { onClose: () => void }) {
  const t = useTranslations("tokens");
  const inDialog = useTranslations("dialog");
  const cache = useQueryClient();
  const { data: session = { admin: false, roles: {}, member: undefined } } = useQuery(sessionQuery);
  const { data: apps = [] } = useQuery(appsQuery);
  const owned = apps.map(({ name }) => name).filter((name) => rightsOf(session, name).mayOwn);
  const [holder, setHolder] = useState(session.member === undefined ? "" : oneself);
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [lifetime, setLifetime] = useState<string>("90d");
  const [made, setMade] = useState<string>();
  const [error, setError] = useState<unknown>();
  const [isMaking, setIsMaking] = useState(false);
  const chosen = holder === "" ? (owned[0] ?? "") : holder;
  const make = async () => {
    setError(undefined);
    setIsMaking(true);
    const of = chosen === oneself ? { member: session.member as string } : { app: chosen, role };
    try {
      const { token } = await answerOf(
        api.POST("/api/v1/tokens", { body: { name, ...of, ...(lifetime === "" ? {} : { expiresIn: lifetime }) } }),
      );
      await cache.invalidateQueries({ queryKey: ["tokens"] });
      setMade(token);
    } catch (failure) {
      setError(failure);
      setIsMaking(false);
    }
  };
  const mayClose = () => !isMaking && (name === "" || window.confirm(inDialog("leave")));
  if (made !== undefined) return <Made token={made} onClose={onClose} />;
  return (
    <Dialog title={t("makeTitle")} onClose={onClose} mayClose={mayClose}>
      <Field label={t("name")} help={t("nameHelp")}>
        {(input) => <input {...input} value={name} onChange={(e) => setName(e.target.value)} />}
      </Field>
      <Field label={t("for")}>
        {(input) => (
          <select {...input} value={chosen} onChange={(e) => setHolder(e.target.value)}>
            {session.member === undefined ? null : <option value={oneself}>{t("oneself")}</option>}
            {owned.map((app) => (
              <option key={app} value={app}>
                {t("app", { app })}
              </option>
            ))}
          </select>
        )}
      </Field>
      {chosen === oneself ? null : (
        <Field label={t("role")} help={t(`roleMeans.${role}`)}>
          {(input) => (
            <select {...input} value={role} onChange={(e) => setRole(e.target.value as Role)}>
              {roles.map((one) => (
                <option key={one} value={one}>
                  {t(`roles.${one}`)}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      <Field label={t("lifetime")}>
        {(input) => (
          <select {...input} value={lifetime} onChange={(e) => setLifetime(e.target.value)}>
            {lifetimes.map((one) => (
              <option key={one} value={one}>
                {t(`lifetimes.${one === "" ? "unlimited" : one}`)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {error === undefined ? null : <Refusal error={error} />}
      <div className="actions">
        <button type="button" disabled={isMaking} onClick={onClose}>
          {t("cancel")}
        </button>
        <button type="button" className="main" disabled={isMaking} onClick={() => void make()}>
          {t("make")}
        </button>
      </div>
    </Dialog>
  );
}

function Made({ token, onClose }: { token: string; onClose: () => void }) {
  const t = useTranslations("tokens");
  const place = useRef<HTMLInputElement>(null);
  const [isCopied, setIsCopied] = useState(false);
  const copy = async () => {
    // Over plain HTTP, a page may only copy what is selected.
    place.current?.select();
    if (navigator.clipboard === undefined) document.execCommand("copy");
    else await navigator.clipboard.writeText(token);
    setIsCopied(true);
  };
  return (
    <Dialog title={t("madeTitle")} onClose={onClose}>
      <p>{t("madeMeans")}</p>
      <Field label={t("token")}>{(input) => <input {...input} ref={place} readOnly value={token} />}</Field>
      <div className="actions">
        <button type="button" onClick={() => void copy()}>
          {t(isCopied ? "copied" : "copy")}
        </button>
        <button type="button" className="main" onClick={onClose}>
          {t("close")}
        </button>
      </div>
    </Dialog>
  );
}
