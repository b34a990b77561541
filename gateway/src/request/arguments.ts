// Reads the arguments of the request.

/**
 * @returns false if there is a "#" in the request's target. nginx ends the arguments there and passes on the whole target, in which Go, Node
 * and others read further arguments behind it. No honest client sends one.
 */
export function requestArguments(): string | false {
  return string.find(ngx.var["request_uri"] ?? "", "#", 1, true)[0] === undefined ? (ngx.var["args"] ?? "") : false;
}
