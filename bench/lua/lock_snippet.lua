-- Articles recommend this: under a lock, read a counter of the shared dict and increment it, by client address and minute.
-- It uses lua-resty-lock if the runtime has it, and otherwise a short form of its loop, as on Debian's nginx.

local limit = 1e9
local window_seconds = 60

local counters = ngx.shared.lock_snippet
local locks = ngx.shared.lock_snippet_locks
local has_resty_lock, resty_lock = pcall(require, "resty.lock")

local function lock_by_add(key)
  local pause, waited = 0.001, 0
  while not locks:add(key, true, 30) do
    if waited >= 5 then return nil end
    ngx.sleep(pause)
    waited = waited + pause
    pause = math.min(pause * 2, 0.5)
  end
  return true
end

local _M = {}

function _M.access()
  local key = ngx.var.remote_addr .. ":" .. math.floor(ngx.time() / window_seconds)
  local lock
  if has_resty_lock then
    lock = resty_lock:new("lock_snippet_locks")
    if not lock:lock(key) then return ngx.exit(500) end
  elseif not lock_by_add(key) then
    return ngx.exit(500)
  end
  local used = counters:get(key)
  local allowed = not used or used < limit
  if allowed then counters:incr(key, 1, 0, window_seconds) end
  if lock then lock:unlock() else locks:delete(key) end
  if not allowed then return ngx.exit(429) end
end

-- Returns the number of requests that it has counted, which shows that it takes part.
function _M.count()
  local total = 0
  for _, key in ipairs(counters:get_keys(0)) do total = total + (counters:get(key) or 0) end
  return total
end

return _M
