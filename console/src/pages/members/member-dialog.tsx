// Adds a member, or changes a member's roles.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api, type Schemas } from "../../api/client.ts";
import { appsQuery, sessionQuery } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";
import { rightsOf } from "../../parts/rights.ts";

export type Member = Schemas["Member"];
const roles = ["none", "viewer", "editor", "owner"] as const;
type Role = (typeof roles)[number];

export function MemberDialog({ member, onClose }: { member: Member | undefined; onClose: () => void }) {
  const t = useTranslations("members");
  const tell = useTell();
  const cache = useQueryClient();
  const { data: session = { admin: false, roles: {} } } = useQuery(sessionQuery);
  const { data: apps = [] } = useQuery(appsQuery);
  const owned = apps.filter(({ name }) => rightsOf(session, name).mayOwn);
  const [name, setName] = useState(member?.name ?? "");
  const [given, setGiven] = useState<Readonly<Record<string, Role>>>(member?.roles ?? {});
  const [isAdmin, setIsAdmin] = useState(member?.admin ?? false);
  const [isDisabled, setIsDisabled] = useState(member?.disabled ?? false);
  // Only what is different is sent: somebody else may change the rest meanwhile.
  const changed = Object.entries(given).filter(([app, role]) => role !== (member?.roles[app] ?? "none"));
  const body = {
    ...(changed.length === 0 ? {} : { roles: Object.fromEntries(changed) }),
    ...(isAdmin === (member?.admin ?? false) ? {} : { admin: isAdmin }),
    ...(isDisabled === (member?.disabled ?? false) ? {} : { disabled: isDisabled }),
  };
  const isChanged = Object.keys(body).length > 0 || name !== (member?.name ?? "");
  const act = async () => {
    if (member === undefined) await answerOf(api.POST("/api/v1/members", { body: { name, ...body } }));
    else await answerOf(api.PATCH("/api/v1/members/{member}", { params: { path: { member: name } }, body }));
    await cache.invalidateQueries({ queryKey: ["members"] });
    tell({ text: t(member === undefined ? "added" : "isChanged", { name }) });
  };
  return (
    <Confirmation
      title={member === undefined ? t("addTitle") : t("changeTitle", { name })}
      action={t(member === undefined ? "add" : "save")}
      isChanged={isChanged}
      act={act}
      onClose={onClose}
    >
      {member === undefined ? (
        <Field label={t("name")} help={t("nameHelp")}>
          {(input) => <input {...input} value={name} spellCheck={false} onChange={(e) => setName(e.target.value)} />}
        </Field>
      ) : null}
      <div className="fields">
        {owned.map(({ name: app }) => (
          <Field key={app} label={t("roleOf", { app })}>
            {(input) => (
              <select
                {...input}
                value={given[app] ?? "none"}
                onChange={(e) => setGiven({ ...given, [app]: e.target.value as Role })}
              >
                {roles.map((role) => (
                  <option key={role} value={role}>
                    {t(`role.${role}`)}
                  </option>
                ))}
              </select>
            )}
          </Field>
        ))}
      </div>
      <p className="quiet">{t("rolesHelp")}</p>
      {session.admin ? (
        <>
          <label className="choice">
            <input type="checkbox" checked={isAdmin} onChange={(e) => setIsAdmin(e.target.checked)} /> {t("makeAdmin")}
          </label>
          <label className="choice">
            <input type="checkbox" checked={isDisabled} onChange={(e) => setIsDisabled(e.target.checked)} />{" "}
            {t("disable")}
          </label>
        </>
      ) : null}
    </Confirmation>
  );
}
