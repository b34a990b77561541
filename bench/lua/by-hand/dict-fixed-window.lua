-- A fixed window in a shared dict. Its one cell has the units used, and in its flags the window's index modulo 2^32.

local floor, min, ceil = math.floor, math.min, math.ceil

local _M = {}

-- Returns a function of key, now (µs) and cost, which returns allowed, remaining, retry after, reset after (µs).
function _M.new(dict, quota, window)
  local tolerance = math.max(min(window, 1000000), 50000)
  local life = ceil(2 * window / 1000) / 1000

  return function(key, now, cost)
    local index = floor(now / window)
    local charged = index
    local used, flags = dict:get(key)
    if used then
      local behind = (index - (flags or 0)) % 4294967296
      if behind >= 2147483648 then behind = behind - 4294967296 end
      if behind > 0 then
        used = 0
      elseif behind < 0 then
        charged = index - behind
        if charged * window - now > tolerance then
          -- The clock stepped back: what was used counts in the window that the clock now shows.
          charged = index
          dict:set(key, used, life, charged % 4294967296)
        end
      end
    else
      used = 0
    end
    local reset = (charged + 1) * window - now
    local after = used + cost
    if after <= quota then
      dict:set(key, after, life, charged % 4294967296)
      return true, quota - after, 0, reset
    end
    return false, used < quota and quota - used or 0, cost > quota and -1 or reset, reset
  end
end

return _M
