// The tokens of programs and people: one's own, and those of the apps that one owns.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { answerOf, api, type Schemas } from "../../api/client.ts";
import { tokensQuery } from "../../api/queries.ts";
import { Confirmation } from "../../parts/dialog.tsx";
import { Moment } from "../../parts/moment.tsx";
import { useTell } from "../../parts/notices.tsx";
import { Empty, Failed, Loading } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { TokenDialog } from "./token-dialog.tsx";

type Token = Schemas["Token"];

export function TokensPage() {
  const t = useTranslations("tokens");
  const { data: tokens, error, isPending, refetch } = useQuery(tokensQuery);
  const [isMaking, setIsMaking] = useState(false);
  const [deleting, setDeleting] = useState<Token>();
  return (
    <>
      <div className="heading">
        <h1>{t("title")}</h1>
        {tokens === undefined ? null : (
          <button type="button" className="main" onClick={() => setIsMaking(true)}>
            {t("make")}
          </button>
        )}
      </div>
      {isPending ? <Loading /> : null}
      {tokens === undefined && !isPending ? <Failed error={error} again={() => void refetch()} /> : null}
      {tokens?.length === 0 ? <Empty>{t("none")}</Empty> : null}
      {tokens === undefined || tokens.length === 0 ? null : (
        <section className="card">
          <Table
            label={t("title")}
            columns={[t("name"), t("for"), t("role"), t("ends"), t("used"), t("made"), t("actions")]}
          >
            {tokens.map((token) => (
              <Row key={token.id} token={token} onDelete={() => setDeleting(token)} />
            ))}
          </Table>
        </section>
      )}
      {isMaking ? <TokenDialog onClose={() => setIsMaking(false)} /> : null}
      {deleting === undefined ? null : <Deletion token={deleting} onClose={() => setDeleting(undefined)} />}
    </>
  );
}

function Row({ token, onDelete }: { token: Token; onDelete: () => void }) {
  const t = useTranslations("tokens");
  const { name, lastFour, app, member, role, expired, expiresAt, lastUsedAt, createdAt } = token;
  return (
    <tr>
      <th scope="row">
        {name} <span className="quiet">… {lastFour}</span>
      </th>
      <td>{member ?? app ?? t("everything")}</td>
      <td>{t(`roles.${role}`)}</td>
      <td className={expired ? "bad" : undefined}>
        {expiresAt === undefined ? t("never") : <Moment at={expiresAt} />}
      </td>
      <td>{lastUsedAt === undefined ? t("unused") : <Moment at={lastUsedAt} />}</td>
      <td>
        <Moment at={createdAt} />
      </td>
      <td>
        <button type="button" className="danger" aria-label={t("deleteOne", { name })} onClick={onDelete}>
          {t("delete")}
        </button>
      </td>
    </tr>
  );
}

function Deletion({ token: { id, name, role }, onClose }: { token: Token; onClose: () => void }) {
  const t = useTranslations("tokens");
  const tell = useTell();
  const cache = useQueryClient();
  const act = async () => {
    await answerOf(api.DELETE("/api/v1/tokens/{id}", { params: { path: { id } } }));
    await cache.invalidateQueries({ queryKey: ["tokens"] });
    tell({ text: t("deleted", { name }) });
  };
  return (
    <Confirmation title={t("deleteTitle", { name })} action={t("delete")} destructive act={act} onClose={onClose}>
      <p>{t(role === "caller" ? "deleteMeansCaller" : role === "gateway" ? "deleteMeansGateway" : "deleteMeans")}</p>
    </Confirmation>
  );
}
