// One template as YAML: says what a change would do to the policies that use it before it is stored.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { parse, stringify } from "yaml";
import { answerOf, api, type Schemas } from "../../api/client.ts";
import type { Template } from "../../api/queries.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { DiffView } from "../../parts/diff/diff-view.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";
import { Refusal } from "../../parts/refusal.tsx";

const beginning = { onLimit: { action: "reject", status: 429, body: "Too many requests. Try again later." } };
const wait = "5s";

export function TemplateDialog({
  app,
  template,
  mayEdit,
  onClose,
}: {
  app: string;
  /** undefined: a new one. */
  template: Template | undefined;
  mayEdit: boolean;
  onClose: () => void;
}) {
  const t = useTranslations("templates");
  const inDialog = useTranslations("dialog");
  const tell = useTell();
  const cache = useQueryClient();
  const [name, setName] = useState(template?.name ?? "");
  const [original] = useState(() => stringify(template?.document ?? beginning));
  const [text, setText] = useState(original);
  const [isBusy, setIsBusy] = useState(false);
  const mayClose = () => !isBusy && (text === original || window.confirm(inDialog("leave")));
  const close = () => {
    if (mayClose()) onClose();
  };
  const [error, setError] = useState<unknown>();
  const [fault, setFault] = useState<string>();
  const [changes, setChanges] = useState<Schemas["Diff"]["changes"]>();
  const put = (query: { dryRun: true } | { wait: string }, document: unknown, etag: string | undefined) =>
    answerOf(
      api.PUT("/api/v1/apps/{app}/templates/{template}", {
        params: {
          path: { app, template: name },
          query,
          header: etag === undefined ? { "if-none-match": "*" } : { "if-match": etag },
        },
        body: document as never,
      }),
    );
  const attempt = async (act: (document: unknown) => Promise<void>) => {
    setError(undefined);
    setFault(undefined);
    let document: unknown;
    try {
      document = parse(text);
    } catch (failure) {
      setFault(failure instanceof Error ? failure.message : String(failure));
      return;
    }
    if (name === "") {
      setFault(t("noName"));
      return;
    }
    setIsBusy(true);
    await act(document).catch(setError);
    setIsBusy(false);
  };
  const rehearse = () =>
    attempt(async (document) => {
      const rehearsal = await put({ dryRun: true }, document, template?.etag);
      setChanges(rehearsal.changes ?? []);
    });
  const store = () =>
    attempt(async (document) => {
      const { applied } = await put({ wait }, document, template?.etag);
      await cache.invalidateQueries({ queryKey: ["templates", app] });
      tell({ text: t("stored", { name, have: applied?.acked ?? 0, of: applied?.gateways ?? 0 }) });
      onClose();
    });
  return (
    <Dialog title={template === undefined ? t("newTitle") : template.name} onClose={onClose} mayClose={mayClose}>
      {template === undefined ? (
        <Field label={t("name")}>
          {(input) => <input {...input} value={name} spellCheck={false} onChange={(e) => setName(e.target.value)} />}
        </Field>
      ) : null}
      <Field label={t("yaml")} help={t("yamlHelp")} fault={fault}>
        {(input) => (
          <textarea
            {...input}
            className="code"
            rows={10}
            spellCheck={false}
            readOnly={!mayEdit}
            value={text}
            onChange={(e) => {
              setText(e.target.value);
              setChanges(undefined);
            }}
          />
        )}
      </Field>
      {error === undefined ? null : <Refusal error={error} />}
      {changes === undefined ? null : <DiffView changes={changes} />}
      <div className="actions">
        <button type="button" onClick={close}>
          {t("close")}
        </button>
        {mayEdit ? (
          <>
            <button type="button" disabled={isBusy} onClick={() => void rehearse()}>
              {t("rehearse")}
            </button>
            <button type="button" className="main" disabled={isBusy} onClick={() => void store()}>
              {t("store")}
            </button>
          </>
        ) : null}
      </div>
    </Dialog>
  );
}
