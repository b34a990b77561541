// What every object of JavaScript answers to though nobody put it there. A table that is asked by one of these names
// must not answer.

export const namesOfPrototypes = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "toLocaleString",
  "valueOf",
  "hasOwnProperty",
  "isPrototypeOf",
  "__defineGetter__",
];
