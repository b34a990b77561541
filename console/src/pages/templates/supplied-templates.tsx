// What is supplied with Sluice: to be read, and taken by name or as the beginning of a new policy.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { stringify } from "yaml";
import { libraryQuery, type Supplied } from "../../api/queries.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Failed, Loading } from "../../parts/states.tsx";
import { useSuppliedWords } from "../../parts/supplied-words.ts";
import { Table } from "../../parts/table.tsx";

export function SuppliedTemplates({ app, mayEdit }: { app: string; mayEdit: boolean }) {
  const t = useTranslations("templates");
  const words = useSuppliedWords();
  const { data: library, error, isPending, refetch } = useQuery(libraryQuery);
  const [shown, setShown] = useState<Supplied>();
  return (
    <section className="card" aria-label={t("supplied")}>
      <h2>{t("supplied")}</h2>
      <p className="quiet">{t("suppliedMeans")}</p>
      {isPending ? <Loading /> : null}
      {error === null ? null : <Failed error={error} again={() => void refetch()} />}
      {library === undefined ? null : (
        <Table label={t("supplied")} columns={[t("name"), t("purpose"), t("kind"), t("actions")]}>
          {library.map((one) => (
            <tr key={one.name}>
              <th scope="row">{one.name}</th>
              <td>{words(one).title}</td>
              <td>{t(`kinds.${one.kind}`)}</td>
              <td>
                <button type="button" aria-label={t("viewOne", { name: one.name })} onClick={() => setShown(one)}>
                  {t("view")}
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {shown === undefined ? null : (
        <SuppliedDialog app={app} supplied={shown} mayEdit={mayEdit} onClose={() => setShown(undefined)} />
      )}
    </section>
  );
}

function SuppliedDialog({
  app,
  supplied,
  mayEdit,
  onClose,
}: {
  app: string;
  supplied: Supplied;
  mayEdit: boolean;
  onClose: () => void;
}) {
  const t = useTranslations("templates");
  const { name, kind, document } = supplied;
  const { title, paragraphs } = useSuppliedWords()(supplied);
  return (
    <Dialog title={title} onClose={onClose}>
      {paragraphs.map((paragraph) => (
        <p key={paragraph}>{paragraph}</p>
      ))}
      <p>{t(`uses.${kind}`)}</p>
      <pre className="code">{kind === "action" ? `onLimit: { template: ${name} }` : `template: ${name}`}</pre>
      <p>{t("stands")}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <pre className="code" tabIndex={0}>
        {stringify(document, { lineWidth: 0 })}
      </pre>
      <div className="actions">
        {kind === "policy" && mayEdit ? (
          <Link to="/policies/new" search={{ app, template: name }}>
            {t("begin")}
          </Link>
        ) : null}
        <button type="button" onClick={onClose}>
          {t("close")}
        </button>
      </div>
    </Dialog>
  );
}
