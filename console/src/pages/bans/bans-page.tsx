// The bans of an app that are in force: who is banned, until when, why and by whom.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { bansQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Moment } from "../../parts/moment.tsx";
import { useRights } from "../../parts/rights.ts";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { visible } from "../../parts/visible.ts";
import { BanDialog } from "./ban-dialog.tsx";
import { type Ban, bannedOf } from "./bans-of-key.ts";
import { UnbanDialog } from "./unban-dialog.tsx";

const route = getRouteApi("/shell/bans");

export function BansPage() {
  const t = useTranslations("bans");
  const { app: asked } = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(asked);
  const { mayEdit } = useRights(app);
  const [isBanning, setIsBanning] = useState(false);
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => void navigate({ search: { app: chosen } })} />
        {mayEdit ? (
          <button type="button" className="main" onClick={() => setIsBanning(true)}>
            {t("banNetwork")}
          </button>
        ) : null}
      </div>
      {app === undefined ? <Loading /> : <Bans key={app} app={app} mayEdit={mayEdit} />}
      {isBanning && app !== undefined ? (
        <BanDialog app={app} banned={undefined} onClose={() => setIsBanning(false)} />
      ) : null}
    </>
  );
}

function Bans({ app, mayEdit }: { app: string; mayEdit: boolean }) {
  const t = useTranslations("bans");
  const { data: bans, error, isPending, refetch } = useQuery(bansQuery(app));
  const [ending, setEnding] = useState<Ban>();
  if (isPending) return <Loading />;
  if (bans === undefined) return <Failed error={error} again={() => void refetch()} />;
  if (bans.length === 0) {
    return (
      <Empty>
        {t("none", { app })}{" "}
        <Link to="/keys" search={{ app }}>
          {t("toKeys")}
        </Link>
      </Empty>
    );
  }
  return (
    <section className="card">
      <Table
        label={t("title")}
        columns={[t("what"), t("policy"), t("ends"), t("reason"), t("by"), t("since"), t("actions")]}
      >
        {bans.map((ban) => (
          <tr key={ban.id}>
            <th scope="row" className="code">
              {bannedOf(ban)}
              {ban.keyPattern === undefined ? null : <small className="quiet"> {t("pattern")}</small>}
            </th>
            <td>{ban.policy ?? ""}</td>
            <td>
              <Moment at={ban.until} />
            </td>
            <td>{visible(ban.reason ?? "")}</td>
            <td>{visible(ban.createdBy)}</td>
            <td>
              <Moment at={ban.createdAt} />
            </td>
            <td>
              {mayEdit ? (
                <button
                  type="button"
                  aria-label={t("unbanOne", { what: bannedOf(ban) })}
                  onClick={() => setEnding(ban)}
                >
                  {t("unban")}
                </button>
              ) : null}
            </td>
          </tr>
        ))}
      </Table>
      {ending === undefined ? null : <UnbanDialog app={app} ban={ending} onClose={() => setEnding(undefined)} />}
    </section>
  );
}
