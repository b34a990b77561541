-- Sends check requests to the check API. Arguments: -- TOKEN POLICY CHECKS KEYS. The i-th check of a request has the key "k"
-- and i, or, if KEYS is above 0, a random one of that many. If POLICY is healthz, requests contain no check, for comparison.
-- Prints wrk's counts as one line of JSON.

local checks, keys, policy, fixed

function init(args)
  policy, checks, keys = args[2], tonumber(args[3]), tonumber(args[4])
  if policy == "healthz" then
    wrk.path = "/sluice/healthz"
    fixed = wrk.format()
    return
  end
  wrk.method = "POST"
  wrk.path = "/sluice/v1/check"
  wrk.headers["Authorization"] = "Bearer " .. args[1]
  wrk.headers["Content-Type"] = "application/json"
end

local function body()
  local list = {}
  for i = 1, checks do
    local key = keys > 0 and math.random(keys) or i
    list[i] = ('{"policy":"%s","key":["k%d"],"cost":1}'):format(policy, key)
  end
  return '{"checks":[' .. table.concat(list, ",") .. "]}"
end

function request()
  if keys > 0 then
    return wrk.format(nil, nil, nil, body())
  end
  fixed = fixed or wrk.format(nil, nil, nil, body())
  return fixed
end

function done(summary, latency)
  local errors = summary.errors
  print(('{"requests":%d,"durationUs":%d,"p50Us":%d,"p99Us":%d,"errors":%d}'):format(
    summary.requests,
    summary.duration,
    latency:percentile(50),
    latency:percentile(99),
    errors.status + errors.connect + errors.read + errors.write + errors.timeout
  ))
end
