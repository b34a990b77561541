-- Answers the requests that every player in Lua gets: one line each, answered with a text.
--
--   digests <seed> <family> <first> <counters> <asks>   a line per counter: its digest, how many were asked and allowed
--   replay <number> …                                   plays this trace; a line of numbers per event

local function numbersIn(line)
  local numbers = {}
  for number in line:gmatch("%-?%d+") do
    numbers[#numbers + 1] = tonumber(number)
  end
  return numbers
end

local function joined(numbers)
  local texts = {}
  for i, number in ipairs(numbers) do
    texts[i] = string.format("%.0f", number)
  end
  return table.concat(texts, " ")
end

return function(trace, player, line)
  local numbers = numbersIn(line)
  local lines = {}
  if line:sub(1, 7) == "digests" then
    local seed, family, first, counters, asks = unpack(numbers)
    for counter = first, first + counters - 1 do
      local outcome = trace.play(player, trace.randomTrace(seed, family, counter, asks), nil)
      lines[#lines + 1] = joined({ outcome.digest, outcome.asked, outcome.allowed })
    end
  else
    local heard = {}
    trace.play(player, numbers, heard)
    for i, event in ipairs(heard) do
      lines[i] = joined(event)
    end
  end
  return table.concat(lines, "\n")
end
