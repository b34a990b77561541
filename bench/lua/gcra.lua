-- The floor for a limiter in Lua on one worker: one rate, one key, no policy, no headers. GCRA in a shared dict, with one
-- get and one set a request. The bucket is that of bench/policies.ts.

local interval_ms = 6000
local burst_ms = interval_ms * 100000000

local cells = ngx.shared.gcra

local _M = {}

function _M.access()
  local key = ngx.var.binary_remote_addr
  local now_ms = ngx.now() * 1000
  local tat = cells:get(key)
  if not tat or tat < now_ms then tat = now_ms end
  tat = tat + interval_ms
  if tat - now_ms > burst_ms then return ngx.exit(429) end
  cells:set(key, tat, (tat - now_ms) / 1000)
end

return _M
