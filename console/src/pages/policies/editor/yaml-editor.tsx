// The text editor for a policy's YAML: colours, completion, and what is wrong underlined where it is.
//
// It lives in a shadow root, because CodeMirror then keeps its styles in style sheets that the page's Content-Security-Policy allows.

import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { useTranslations } from "use-intl";
import { useExpectation } from "../../../settings/language.tsx";
import { suggestionsAt } from "./completions.ts";
import type { Draft } from "./draft.ts";

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--card)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-content": { fontFamily: 'ui-monospace, "Noto Sans Mono", monospace', caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { color: "var(--quiet)", backgroundColor: "var(--back)", border: "none" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)",
  },
  ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--card)", border: "1px solid var(--quiet)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--on-accent)", backgroundColor: "var(--accent)" },
  ".cm-completionInfo": { maxWidth: "24rem" },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.content], color: "var(--good)" },
  { tag: tags.comment, color: "var(--quiet)" },
]);

export function YamlEditor({
  draft,
  isReadOnly,
  onText,
}: {
  draft: Draft;
  isReadOnly: boolean;
  onText: (text: string) => void;
}) {
  const t = useTranslations("editor");
  const say = useExpectation();
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const changed = useRef(onText);
  changed.current = onText;
  const label = t("yaml");
  const first = useRef(draft.text);
  /** What was typed, and has not come back yet. */
  const told = useRef<string[]>([]);
  /** Whether the form changes the text now. */
  const isShowing = useRef(false);

  useEffect(() => {
    const host = place.current;
    if (host === null) return;
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const made = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          yaml(),
          syntaxHighlighting(colours),
          lintGutter(),
          look,
          EditorView.lineWrapping,
          EditorState.readOnly.of(isReadOnly),
          EditorView.contentAttributes.of({ "aria-label": label, ...(isReadOnly ? { "aria-readonly": "true" } : {}) }),
          autocompletion({
            override: [
              ({ state, pos, explicit }) => {
                const { from, suggestions } = suggestionsAt(state.doc.toString(), pos);
                if (suggestions.length === 0 || (from === pos && !explicit)) return null;
                const options = suggestions.map(({ text, meaning, isField }) => ({
                  label: text,
                  ...(meaning === "" ? {} : { info: meaning }),
                  apply: isField ? `${text}: ` : text,
                }));
                return { from, options };
              },
            ],
          }),
          // Tab leaves the editor, as it leaves every field.
          keymap.of([...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged || isShowing.current) return;
            const text = update.state.doc.toString();
            told.current.push(text);
            changed.current(text);
          }),
        ],
      }),
    });
    view.current = made;
    return () => {
      first.current = made.state.doc.toString();
      made.destroy();
    };
  }, [isReadOnly, label]);

  useEffect(() => {
    const shown = view.current;
    if (shown === undefined) return;
    const old = shown.state.doc.toString();
    const echo = told.current.lastIndexOf(draft.text);
    told.current.splice(0, echo < 0 ? told.current.length : echo + 1);
    // What was typed here comes back a little later. Somebody who types fast is further by then, and nothing of that may be lost.
    if (echo >= 0 && old !== draft.text) return;
    if (old !== draft.text) {
      isShowing.current = true;
      // Only what differs is replaced, so that the cursor stays where it is.
      shown.dispatch({ changes: differenceOf(old, draft.text) });
      isShowing.current = false;
    }
    const diagnostics = draft.faults.map(({ path, expected, got, from, to }) => ({
      from,
      to,
      severity: "error" as const,
      message:
        got === ""
          ? expected
          : t("fault", { path: path === "" ? t("document") : path, expected: say(expected), got: say(got) }),
    }));
    shown.dispatch(setDiagnostics(shown.state, diagnostics));
  }, [draft, t, say]);

  return <div ref={place} className="yaml" />;
}

function differenceOf(old: string, text: string): { from: number; to: number; insert: string } {
  const most = Math.min(old.length, text.length);
  let from = 0;
  while (from < most && old[from] === text[from]) from++;
  let end = 0;
  while (end < most - from && old[old.length - 1 - end] === text[text.length - 1 - end]) end++;
  return { from, to: old.length - end, insert: text.slice(from, text.length - end) };
}
