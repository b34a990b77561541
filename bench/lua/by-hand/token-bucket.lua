-- A token bucket in memory: the moment when it is full again, in whole µs and quota-ths of one.

local wide = require("by-hand.wide")

local floor, ceil, min = math.floor, math.ceil, math.min

local exact = 2 ^ 53

local _M = {}

function _M.counter()
  return { at = 0, rest = 0 }
end

-- Returns a function of counter, now (µs) and cost, which returns allowed, remaining, retry after, reset after (µs).
function _M.new(quota, window, burst)
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

  return function(counter, now, cost)
    local at, rest = counter.at, counter.rest
    local stepped = false
    if at < now then
      at, rest = now, 0
    elseif at - now > longest then
      at, rest, stepped = now + full, full_rest, true
      counter.at, counter.rest = at, rest
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
      counter.at, counter.rest = next_at, next_rest
      return true, units_in(full - owed, full_rest - next_rest), 0, min(next_rest > 0 and owed + 1 or owed, exact)
    end
    local retry = cost > burst and -1 or min(owed - full + ceil((next_rest - full_rest) / quota), exact)
    owed = at - now
    local remaining = owed <= full and units_in(full - owed, full_rest - rest) or 0
    return false, remaining < 0 and 0 or remaining, retry, min(rest > 0 and owed + 1 or owed, exact)
  end
end

return _M
