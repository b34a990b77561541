-- For wrk: sends always the same request or random ones of prepared requests, and reports in one line of JSON.
-- Arguments: PATH, then "one", "many" (100,000 values of the query parameter k) or "hosts" (10 paths on 1,000 hosts).

local prepared = {}

local function prepare(target, host)
  prepared[#prepared + 1] = wrk.format("GET", target, { Host = host })
end

function init(args)
  local path, keys = args[1], args[2]
  if keys == "one" then
    -- Without a function request, wrk repeats this one at no cost of its own, so that nginx is what is saturated.
    wrk.path = path .. "?k=hot"
    wrk.headers["Host"] = "bench.example"
    return
  elseif keys == "many" then
    for i = 1, 100000 do prepare(path .. "?k=" .. i, "bench.example") end
  elseif keys == "hosts" then
    for host = 0, 999 do
      for n = 0, 9 do prepare(path .. "/" .. n .. "?k=hot", "h" .. host .. ".example") end
    end
  else
    error("expected one, many or hosts, got " .. tostring(keys))
  end
  math.randomseed(os.time())
  request = function()
    return prepared[math.random(#prepared)]
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"durationUs":%d,"p50Us":%d,"p99Us":%d,"statusErrors":%d,"socketErrors":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
