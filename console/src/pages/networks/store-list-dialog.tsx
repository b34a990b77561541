// Stores a list of networks: a new one, or another one in the place of one that is stored. It says what that would change before.

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client.ts";
import type { ListOfNetworks } from "../../api/queries.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { DiffView } from "../../parts/diff/diff-view.tsx";
import { Field } from "../../parts/field.tsx";
import { useTell } from "../../parts/notices.tsx";
import { Refusal } from "../../parts/refusal.tsx";
import { deleteList, networksOf, putList } from "./stored-list.ts";

/** Longer lists are not shown to be edited: they come from files. */
const mostEdited = 1_000;

export function StoreListDialog({
  app,
  stored,
  onClose,
}: {
  app: string;
  /** undefined: a new one. */
  stored: ListOfNetworks | undefined;
  onClose: () => void;
}) {
  const t = useTranslations("networks");
  const inDialog = useTranslations("dialog");
  const tell = useTell();
  const cache = useQueryClient();
  const isEdited = stored === undefined || stored.count <= mostEdited;
  const [name, setName] = useState(stored?.name ?? "");
  const [original, setOriginal] = useState(stored === undefined || !isEdited ? "" : undefined);
  const [text, setText] = useState("");
  const [file, setFile] = useState<File>();
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [fault, setFault] = useState<string>();
  const [changes, setChanges] = useState<Schemas["Diff"]["changes"]>();
  useEffect(() => {
    if (stored === undefined || !isEdited) return;
    networksOf(app, stored.name).then((networks) => {
      setText(networks.join("\n"));
      setOriginal(networks.join("\n"));
    }, setError);
  }, [app, stored, isEdited]);
  const isChanged = file !== undefined || text !== (original ?? "");
  // A long list is not shown: without a file and a text, nobody has said what it is to be.
  const mayStore = !isBusy && original !== undefined && (isEdited || isChanged);
  const mayClose = () => !isBusy && (!isChanged || window.confirm(inDialog("leave")));
  const attempt = async (act: (networks: string) => Promise<void>) => {
    setError(undefined);
    setFault(name === "" ? t("noName") : undefined);
    if (name === "") return;
    setIsBusy(true);
    try {
      await act(file === undefined ? text : await file.text());
    } catch (failure) {
      setError(failure);
    }
    setIsBusy(false);
  };
  const rehearse = () =>
    attempt(async (networks) => {
      const rehearsal = await putList(app, name, networks, stored?.etag, true);
      setChanges(rehearsal.changes ?? []);
    });
  const store = () =>
    attempt(async (networks) => {
      const former = stored === undefined ? undefined : await networksOf(app, name);
      const { applied, etag } = await putList(app, name, networks, stored?.etag);
      const seen = () => cache.invalidateQueries({ queryKey: ["networks", app] });
      await seen();
      const undo = async () => {
        if (former === undefined) await deleteList(app, name, etag);
        else await putList(app, name, former.join("\n"), etag);
        await seen();
      };
      tell({ text: t("stored", { name, have: applied?.acked ?? 0, of: applied?.gateways ?? 0 }), undo });
      onClose();
    });
  return (
    <Dialog
      title={stored === undefined ? t("addTitle") : t("replaceTitle", { name })}
      onClose={onClose}
      mayClose={mayClose}
    >
      <p>{t("storeMeans")}</p>
      {stored === undefined ? (
        <Field label={t("name")} help={t("nameHelp")} fault={fault}>
          {(input) => <input {...input} value={name} spellCheck={false} onChange={(e) => setName(e.target.value)} />}
        </Field>
      ) : null}
      <Field label={t("file")} help={t("fileHelp")}>
        {(input) => (
          <input
            {...input}
            type="file"
            accept="text/plain,.txt,.csv,.list"
            onChange={(e) => {
              setFile(e.target.files?.[0]);
              setChanges(undefined);
            }}
          />
        )}
      </Field>
      {file === undefined ? (
        <Field label={t("lines")} help={t(isEdited ? "linesHelp" : "linesHelpLong")}>
          {(input) => (
            <textarea
              {...input}
              className="code"
              rows={10}
              spellCheck={false}
              readOnly={original === undefined}
              value={text}
              onChange={(e) => {
                setText(e.target.value);
                setChanges(undefined);
              }}
            />
          )}
        </Field>
      ) : null}
      {error === undefined ? null : <Refusal error={error} />}
      {changes === undefined ? null : <DiffView changes={changes} />}
      <div className="actions">
        <button type="button" disabled={isBusy} onClick={() => mayClose() && onClose()}>
          {inDialog("cancel")}
        </button>
        <button type="button" disabled={!mayStore} onClick={() => void rehearse()}>
          {t("rehearse")}
        </button>
        <button type="button" className="main" disabled={!mayStore} onClick={() => void store()}>
          {t("store")}
        </button>
      </div>
    </Dialog>
  );
}
