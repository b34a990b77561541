// Which of a Redis Cluster's 16,384 slots a key belongs to: CRC-16 (XMODEM) of its hash tag, or of the whole key if it has none.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags

export const slotCount = 16384;

const polynomial = 0x1021;

const table: readonly number[] = crcTable();

function crcTable(): number[] {
  const entries: number[] = [];
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) !== 0 ? ((crc << 1) ^ polynomial) & 0xffff : crc << 1;
    entries.push(crc);
  }
  return entries;
}

/** @param key bytes, one in each character */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  const tagged = close > open + 1;
  const end = tagged ? close : key.length;
  let crc = 0;
  for (let i = tagged ? open + 1 : 0; i < end; i++) {
    crc = ((crc << 8) & 0xffff) ^ (table[(crc >> 8) ^ key.charCodeAt(i)] as number);
  }
  return crc % slotCount;
}
