// The bounds of a request body, in JSON and YAML alike. Documents are small: a policy with a thousand overrides fits.

export const maxBodyBytes = 256 * 1024;
/** Lists and objects within one another; no document of ours has more than seven. */
export const maxDepth = 32;
/** Of one object; none of ours has more than thirty. */
export const maxFields = 1_000;
/** Values in all. 256 KiB of policy have half as many, since most of them have a key. */
export const maxValues = 50_000;

export const tooDeep = `lists and objects lie within one another more than ${maxDepth} deep`;
export const tooManyFields = `an object has more than ${maxFields} fields`;
export const tooManyValues = `there are more than ${maxValues} values in it`;
