// A dialog over the page. The browser keeps the focus in it and closes it by Escape; afterwards, the focus is where it was.

import { type ReactNode, useId, useLayoutEffect, useRef, useState } from "react";
import { useTranslations } from "use-intl";
import { Refusal } from "./refusal.tsx";

/** @param props.mayClose whether Escape closes it: something may be on its way, or be lost */
export function Dialog({
  title,
  onClose,
  mayClose = () => true,
  children,
}: {
  title: string;
  onClose: () => void;
  mayClose?: () => boolean;
  children: ReactNode;
}) {
  const id = useId();
  const place = useRef<HTMLDialogElement>(null);
  const isShown = useRef(false);
  useLayoutEffect(() => {
    const dialog = place.current;
    isShown.current = true;
    dialog?.showModal();
    return () => {
      // Closing it hands the focus back; the event of it comes when another dialog may be open already.
      isShown.current = false;
      dialog?.close();
      if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={place}
      aria-labelledby={id}
      onKeyDown={(event) => {
        if (event.key === "Escape" && !mayClose()) event.preventDefault();
      }}
      onClose={() => {
        if (isShown.current) onClose();
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/**
 * Asks before something is done that cannot be taken back, or that reaches traffic. `children` say what it will do.
 *
 * @param props.act rejects with what went wrong, which the dialog shows; it closes when this is done, unless it resolves with false
 * @param props.isReady whether what it will do is on the page: before that, one cannot agree
 * @param props.isChanged whether somebody has typed something, which is not lost without a question
 */
export function Confirmation({
  title,
  action,
  destructive = false,
  isReady = true,
  isChanged = false,
  act,
  onClose,
  children,
}: {
  title: string;
  /** What the button says. */
  action: string;
  destructive?: boolean;
  isReady?: boolean;
  isChanged?: boolean;
  act: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}) {
  const t = useTranslations("dialog");
  const [error, setError] = useState<unknown>();
  const [isActing, setIsActing] = useState(false);
  const go = async () => {
    setIsActing(true);
    setError(undefined);
    try {
      if ((await act()) === false) setIsActing(false);
      else onClose();
    } catch (failure) {
      setError(failure);
      setIsActing(false);
    }
  };
  const mayClose = () => !isActing && (!isChanged || window.confirm(t("leave")));
  return (
    <Dialog title={title} onClose={onClose} mayClose={mayClose}>
      {children}
      {error === undefined ? null : <Refusal error={error} />}
      <div className="actions">
        <button type="button" disabled={isActing} onClick={onClose}>
          {t("cancel")}
        </button>
        <button
          type="button"
          className={destructive ? "danger" : "main"}
          disabled={isActing || !isReady}
          onClick={() => void go()}
        >
          {action}
        </button>
      </div>
    </Dialog>
  );
}
