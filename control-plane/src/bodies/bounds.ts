// Bounds of a request body, for JSON and YAML alike. Documents are small: a policy with a thousand overrides fits.

export const maxBodyBytes = 256 * 1024;
/** Of a request without a token: thousands of connections may send one at once. */
export const maxStrangersBytes = 8 * 1024;
/** The deepest nesting of lists and objects. No document of ours has more than seven levels. */
export const maxDepth = 32;
/** The most fields of one object. No object of ours has more than thirty. */
export const maxFields = 1_000;
/** The most values of a body. A policy of 256 KiB has half as many, since most of its values have a key. */
export const maxValues = 50_000;

export const tooDeep = `lists and objects lie within one another more than ${maxDepth} deep`;
export const tooManyFields = `an object has more than ${maxFields} fields`;
export const tooManyValues = `there are more than ${maxValues} values in it`;

/** Of a body with many documents, each of which is bounded as the body of one is. */
export const maxManyBytes = 64 * 1024 * 1024;
/** The most bytes that large bodies take in memory at once. */
export const maxManyBytesHeld = 2 * maxManyBytes;
/** The most of them that those of one app take: one body of the largest size. */
export const maxManyBytesHeldByApp = maxManyBytes;
