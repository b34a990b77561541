-- A token bucket in a shared dict. Its one cell has the moment when it is full again, and in its flags the quota-ths of a µs.

local wide = require("by-hand.wide")

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local exact = 2 ^ 53

local _M = {}

-- Returns a function of key, now (µs) and cost, which returns allowed, remaining, retry after, reset after (µs).
function _M.new(dict, quota, window, burst)
  local unit_rest = window % quota
  local unit = (window - unit_rest) / quota
  local full, full_rest = wide(burst, window, quota)
  local longest = full + math.max(min(window, 1000000), 50000)

  local function units_in(us, rest)
    local product = us * quota + rest
    if product < exact then return floor(product / window) end
    local windows = floor(us / window)
    local part, left = wide(quota, us - windows * window, window)
    return windows * quota + part + floor((left + rest) / window)
  end

  return function(key, now, cost)
    local at, rest = dict:get(key)
    rest = rest or 0
    local stepped = false
    if not at or at < now then
      at, rest = now, 0
    elseif at - now > longest then
      at, rest, stepped = now + full, full_rest, true
      dict:set(key, at, min(ceil((full + 1) / 1000) / 1000, 3155760000), rest)
    elseif rest >= quota then
      rest = 0
    end

    local next_at, next_rest = at + cost * unit, rest + cost * unit_rest
    if next_rest < exact then
      local left = next_rest % quota
      next_at, next_rest = next_at + (next_rest - left) / quota, left
    else
      local carried, left = wide(cost, unit_rest, quota)
      next_at, next_rest = next_at + carried, rest + left
      if next_rest >= quota then next_at, next_rest = next_at + 1, next_rest - quota end
    end

    local owed = next_at - now
    if not stepped and (owed < full or owed == full and next_rest <= full_rest) then
      dict:set(key, next_at, min(ceil((owed + 1) / 1000) / 1000, 3155760000), next_rest)
      return true, units_in(full - owed, full_rest - next_rest), 0, min(next_rest > 0 and owed + 1 or owed, exact)
    end
    local retry = cost > burst and -1 or min(owed - full + ceil((next_rest - full_rest) / quota), exact)
    owed = at - now
    local remaining = owed <= full and units_in(full - owed, full_rest - rest) or 0
    return false, max(remaining, 0), retry, min(rest > 0 and owed + 1 or owed, exact)
  end
end

return _M
