-- A fixed window in memory: when the window began, and the units used in it.

local min = math.min

local _M = {}

function _M.counter()
  return { at = 0, used = 0 }
end

-- Returns a function of counter, now (µs) and cost, which returns allowed, remaining, retry after, reset after (µs).
function _M.new(quota, window)
  local tolerance = math.max(min(window, 1000000), 50000)

  return function(counter, now, cost)
    local at, used = counter.at, counter.used
    local start = now - now % window
    if at < start then
      at, used = start, 0
    elseif at > start and at - now > tolerance then
      -- The clock stepped back: what was used counts in the window that the clock now shows.
      at = start
      counter.at = at
    end
    local reset = at + window - now
    local after = used + cost
    if after <= quota then
      counter.at, counter.used = at, after
      return true, quota - after, 0, reset
    end
    return false, used < quota and quota - used or 0, cost > quota and -1 or reset, reset
  end
end

return _M
