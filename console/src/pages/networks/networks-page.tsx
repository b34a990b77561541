// The named lists of networks of an app, which exemptions and bans refer to, and whom all policies of the app exempt.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { type ListOfNetworks, networkListsQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Moment } from "../../parts/moment.tsx";
import { useRights } from "../../parts/rights.ts";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { AppExemptions } from "./app-exemptions.tsx";
import { DeleteListDialog } from "./delete-list-dialog.tsx";
import { StoreListDialog } from "./store-list-dialog.tsx";
import { ViewListDialog } from "./view-list-dialog.tsx";

const route = getRouteApi("/shell/networks");

export function NetworksPage() {
  const t = useTranslations("networks");
  const { app: asked } = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(asked);
  const { mayEdit } = useRights(app);
  const [isAdding, setIsAdding] = useState(false);
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => void navigate({ search: { app: chosen } })} />
        {mayEdit ? (
          <button type="button" className="main" onClick={() => setIsAdding(true)}>
            {t("add")}
          </button>
        ) : null}
      </div>
      {app === undefined ? <Loading /> : <Lists key={app} app={app} mayEdit={mayEdit} />}
      {app === undefined ? null : <AppExemptions key={`exempt ${app}`} app={app} />}
      {isAdding && app !== undefined ? (
        <StoreListDialog app={app} stored={undefined} onClose={() => setIsAdding(false)} />
      ) : null}
    </>
  );
}

type Act = "view" | "replace" | "delete";

function Lists({ app, mayEdit }: { app: string; mayEdit: boolean }) {
  const t = useTranslations("networks");
  const { data: lists, error, isPending, refetch } = useQuery(networkListsQuery(app));
  const [acting, setActing] = useState<{ readonly act: Act; readonly list: ListOfNetworks }>();
  if (isPending) return <Loading />;
  if (lists === undefined) return <Failed error={error} again={() => void refetch()} />;
  if (lists.length === 0) return <Empty>{t("none", { app })}</Empty>;
  const close = () => setActing(undefined);
  const acts: readonly Act[] = mayEdit ? ["view", "replace", "delete"] : ["view"];
  return (
    <section className="card">
      <p className="quiet">{t(app === "default" ? "meansAll" : "means")}</p>
      <Table label={t("title")} columns={[t("name"), t("count"), t("changed"), t("actions")]}>
        {lists.map((list) => (
          <tr key={list.name}>
            <th scope="row" className="code">
              @{list.name}
            </th>
            <td>{t("networks", { count: list.count })}</td>
            <td>
              <Moment at={list.updatedAt} />
            </td>
            <td>
              {acts.map((act) => (
                <button
                  key={act}
                  type="button"
                  className={act === "delete" ? "danger" : undefined}
                  aria-label={t(`${act}One`, { name: list.name })}
                  onClick={() => setActing({ act, list })}
                >
                  {t(act)}
                </button>
              ))}
            </td>
          </tr>
        ))}
      </Table>
      {acting?.act === "view" ? <ViewListDialog app={app} name={acting.list.name} onClose={close} /> : null}
      {acting?.act === "replace" ? <StoreListDialog app={app} stored={acting.list} onClose={close} /> : null}
      {acting?.act === "delete" ? <DeleteListDialog app={app} stored={acting.list} onClose={close} /> : null}
    </section>
  );
}
