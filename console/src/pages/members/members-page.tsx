// Who may do what: members and their roles.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { membersQuery, sessionQuery } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Moment } from "../../parts/moment.tsx";
import { useTell } from "../../parts/notices.tsx";
import { ownsSomething } from "../../parts/rights.ts";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { type Member, MemberDialog } from "./member-dialog.tsx";

type Open = { readonly action: "add" } | { readonly action: "change" | "delete"; readonly member: Member };

export function MembersPage() {
  const t = useTranslations("members");
  const { data: session } = useQuery(sessionQuery);
  const { data: members, error, isPending, refetch } = useQuery(membersQuery);
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        {session !== undefined && ownsSomething(session) ? (
          <button type="button" className="main" onClick={() => setOpen({ action: "add" })}>
            {t("add")}
          </button>
        ) : null}
      </div>
      {isPending ? <Loading /> : null}
      {members === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {members?.length === 0 ? <Empty>{t("none")}</Empty> : null}
      {members === undefined || members.length === 0 ? null : (
        <section className="card">
          <Table label={t("title")} columns={[t("name"), t("roles"), t("state"), t("since"), t("actions")]}>
            {members.map((member) => (
              <tr key={member.name}>
                <th scope="row">{member.name}</th>
                <td>
                  <Roles member={member} />
                </td>
                <td className={member.disabled ? "bad" : "good"}>{t(member.disabled ? "disabled" : "enabled")}</td>
                <td>
                  <Moment at={member.createdAt} />
                </td>
                <td>
                  <button
                    type="button"
                    aria-label={t("changeOne", { name: member.name })}
                    onClick={() => setOpen({ action: "change", member })}
                  >
                    {t("change")}
                  </button>{" "}
                  {session?.admin === true ? (
                    <button
                      type="button"
                      className="danger"
                      aria-label={t("deleteOne", { name: member.name })}
                      onClick={() => setOpen({ action: "delete", member })}
                    >
                      {t("delete")}
                    </button>
                  ) : null}
                </td>
              </tr>
            ))}
          </Table>
        </section>
      )}
      {open?.action === "add" ? <MemberDialog member={undefined} onClose={close} /> : null}
      {open?.action === "change" ? <MemberDialog member={open.member} onClose={close} /> : null}
      {open?.action === "delete" ? <Deletion member={open.member} onClose={close} /> : null}
    </>
  );
}

function Roles({ member: { admin, adminByGroups, roles, rolesByGroups = {} } }: { member: Member }) {
  const t = useTranslations("members");
  const own = Object.entries(roles).map(([app, role]) => t("roleIn", { app, role: t(`role.${role}`) }));
  const byGroups = Object.entries(rolesByGroups).map(([app, role]) =>
    t("roleByGroup", { app, role: t(`role.${role}`) }),
  );
  const all = [...(admin || adminByGroups === true ? [t("isAdmin")] : []), ...own, ...byGroups];
  return all.length === 0 ? <span className="quiet">{t("noRole")}</span> : all.join(", ");
}

function Deletion({ member: { name }, onClose }: { member: Member; onClose: () => void }) {
  const t = useTranslations("members");
  const tell = useTell();
  const cache = useQueryClient();
  const act = async () => {
    await answerOf(api.DELETE("/api/v1/members/{member}", { params: { path: { member: name } } }));
    await cache.invalidateQueries();
    tell({ text: t("deleted", { name }) });
  };
  return (
    <Confirmation title={t("deleteTitle", { name })} action={t("delete")} destructive act={act} onClose={onClose}>
      <p>{t("deleteMeans")}</p>
    </Confirmation>
  );
}
