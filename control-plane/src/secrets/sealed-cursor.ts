// Where a page ends, for readers who may not know the last entry of the page: only the control planes of this database can open it. Without
// the key, nobody can make one either, so that nobody can try out which entries come after a text.

import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";

const algorithm = "aes-256-gcm";
const nonceBytes = 12;
const tagBytes = 16;

/** @param secret of the database @param purpose what is listed, such as the consumers of an app: elsewhere, the cursor means nothing */
export function sealCursor(secret: string, purpose: string, text: string): string {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(algorithm, keyFor(secret, purpose), nonce, { authTagLength: tagBytes });
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url");
}

/** @returns undefined if the cursor was not made for this purpose */
export function openCursor(secret: string, purpose: string, cursor: string): string | undefined {
  const bytes = Buffer.from(cursor, "base64url");
  if (bytes.length < nonceBytes + tagBytes) return undefined;
  const sealed = bytes.subarray(nonceBytes + tagBytes);
  const decipher = createDecipheriv(algorithm, keyFor(secret, purpose), bytes.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  });
  decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
  try {
    return Buffer.concat([decipher.update(sealed), decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

function keyFor(secret: string, purpose: string): Buffer {
  return createHmac("sha256", secret).update(`cursor\n${purpose}`).digest();
}
