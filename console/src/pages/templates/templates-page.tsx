// The templates of an app: what several policies answer over the limit, or cost, written once.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api } from "../../api/client.ts";
import { policiesQuery, type Template, templatesQuery } from "../../api/queries.ts";
import { AppChoice, useChosenApp } from "../../parts/app-choice.tsx";
import { Confirmation } from "../../parts/dialog.tsx";
import { Moment } from "../../parts/moment.tsx";
import { useTell } from "../../parts/notices.tsx";
import { useRights } from "../../parts/rights.ts";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { SuppliedTemplates } from "./supplied-templates.tsx";
import { TemplateDialog } from "./template-dialog.tsx";
import { usersOf } from "./template-users.ts";

const route = getRouteApi("/shell/templates");

type Open = { readonly action: "new" } | { readonly action: "edit" | "delete"; readonly template: Template };

export function TemplatesPage() {
  const t = useTranslations("templates");
  const { app: asked } = route.useSearch();
  const navigate = route.useNavigate();
  const app = useChosenApp(asked);
  const { mayEdit } = useRights(app);
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        <AppChoice app={app} onChoose={(chosen) => void navigate({ search: { app: chosen } })} />
        {mayEdit ? (
          <button type="button" className="main" onClick={() => setOpen({ action: "new" })}>
            {t("new")}
          </button>
        ) : null}
      </div>
      {app === undefined ? <Loading /> : <Templates key={app} app={app} mayEdit={mayEdit} onOpen={setOpen} />}
      {app === undefined ? null : <SuppliedTemplates app={app} mayEdit={mayEdit} />}
      {app !== undefined && open?.action === "new" ? (
        <TemplateDialog app={app} template={undefined} mayEdit={mayEdit} onClose={close} />
      ) : null}
      {app !== undefined && open?.action === "edit" ? (
        <TemplateDialog app={app} template={open.template} mayEdit={mayEdit} onClose={close} />
      ) : null}
      {app !== undefined && open?.action === "delete" ? (
        <Deletion app={app} template={open.template} onClose={close} />
      ) : null}
    </>
  );
}

function Templates({ app, mayEdit, onOpen }: { app: string; mayEdit: boolean; onOpen: (open: Open) => void }) {
  const t = useTranslations("templates");
  const { data: templates, error, isPending, refetch } = useQuery(templatesQuery(app));
  const { data: policies = [] } = useQuery(policiesQuery(app));
  if (isPending) return <Loading />;
  if (templates === undefined) return <Failed error={error} again={() => void refetch()} />;
  if (templates.length === 0) return <Empty>{t("none", { app })}</Empty>;
  return (
    <section className="card">
      <Table label={t("title")} columns={[t("name"), t("field"), t("users"), t("changed"), t("actions")]}>
        {templates.map((template) => (
          <tr key={template.name}>
            <th scope="row">{template.name}</th>
            <td className="code">{template.document.onLimit === undefined ? "cost" : "onLimit"}</td>
            <td>{t("policies", { count: usersOf(policies, template).length })}</td>
            <td>
              <Moment at={template.updatedAt} />
            </td>
            <td>
              <button
                type="button"
                aria-label={t(mayEdit ? "editOne" : "viewOne", { name: template.name })}
                onClick={() => onOpen({ action: "edit", template })}
              >
                {t(mayEdit ? "edit" : "view")}
              </button>{" "}
              {mayEdit ? (
                <button
                  type="button"
                  className="danger"
                  aria-label={t("deleteOne", { name: template.name })}
                  onClick={() => onOpen({ action: "delete", template })}
                >
                  {t("delete")}
                </button>
              ) : null}
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

function Deletion({ app, template, onClose }: { app: string; template: Template; onClose: () => void }) {
  const t = useTranslations("templates");
  const tell = useTell();
  const cache = useQueryClient();
  const { name, etag, document } = template;
  const seen = () => cache.invalidateQueries({ queryKey: ["templates", app] });
  const act = async () => {
    await answerOf(
      api.DELETE("/api/v1/apps/{app}/templates/{template}", {
        params: { path: { app, template: name }, header: { "if-match": etag } },
      }),
    );
    await seen();
    const undo = async () => {
      await answerOf(
        api.PUT("/api/v1/apps/{app}/templates/{template}", {
          params: { path: { app, template: name }, header: { "if-none-match": "*" } },
          body: document as never,
        }),
      );
      await seen();
    };
    tell({ text: t("deleted", { name }), undo });
  };
  return (
    <Confirmation title={t("deleteTitle", { name })} action={t("delete")} destructive act={act} onClose={onClose}>
      <p>{t("deleteMeans")}</p>
    </Confirmation>
  );
}
