-- The least that a limiter in Lua on one worker can cost: one rate, one key, no policy. It is GCRA in a shared dict, with one
-- get and one set a request; then nothing, or the five headers that Sluice sets. The bucket is that of bench/policies.ts.

local interval_ms = 6000
local burst_ms = interval_ms * 100000000

local cells = ngx.shared.gcra

local header = ngx.header
local add_header = require("ngx.resp").add_header
local tobit = bit.tobit

local _M = {}

-- Returns how much of the bucket is in use, in ms.
local function decide()
  local key = ngx.var.binary_remote_addr
  local now_ms = ngx.now() * 1000
  local tat = cells:get(key)
  if not tat or tat < now_ms then tat = now_ms end
  tat = tat + interval_ms
  if tat - now_ms > burst_ms then return ngx.exit(429) end
  cells:set(key, tat, (tat - now_ms) / 1000)
  return tat - now_ms
end

function _M.access()
  decide()
end

-- The least work that headers need in Lua: only values that change are formatted, and by bit.tobit, which makes it fast.
function _M.access_with_headers()
  local used_ms = decide()
  local remaining, reset = tobit((burst_ms - used_ms) / interval_ms - 0.5), tobit(used_ms / 1000 + 0.5)
  header["RateLimit-Policy"] = '"burst";q=100000000;w=600000000'
  header["RateLimit"] = '"burst";r=' .. remaining .. ";t=" .. reset
  header["X-RateLimit-Limit"] = "100000000"
  header["X-RateLimit-Remaining"] = remaining
  header["X-RateLimit-Reset"] = reset
end

-- The same without a search for existing headers of the same name.
function _M.access_adding_headers()
  local used_ms = decide()
  local remaining, reset = tobit((burst_ms - used_ms) / interval_ms - 0.5), tobit(used_ms / 1000 + 0.5)
  add_header("RateLimit-Policy", '"burst";q=100000000;w=600000000')
  add_header("RateLimit", '"burst";r=' .. remaining .. ";t=" .. reset)
  add_header("X-RateLimit-Limit", "100000000")
  add_header("X-RateLimit-Remaining", remaining)
  add_header("X-RateLimit-Reset", reset)
end

function _M.log()
end

return _M
