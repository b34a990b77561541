-- Plays traces with the scripts that Redis runs: in Redis itself, and in Lua 5.1 on a stand-in for it.
--
-- `redis` has: scripts, a table of functions by name; run(name, keys, argv), which calls one at the time `nowUs`; get(key), which
-- returns what is stored, or false; clear(keys); unpack, like struct.unpack. `trace` is the module of that name.

local function whole(number)
  return string.format("%.0f", number)
end

-- Returns the length of an algorithm's ticks. Node takes it from the limiter: a different one would change what is stored.
local function tickUsOf(limit)
  if limit.algorithm == "sliding-window" then
    return limit.precisionUs
  elseif limit.algorithm == "concurrency" then
    return math.floor(limit.windowUs / 10)
  end
  local tickUs = 1
  while limit.windowUs > tickUs * 1073741824 do
    tickUs = tickUs * 2
  end
  return tickUs
end

local headBytes = 16
local entriesAt = 36
local entryBytes = 8

return function(redis, trace)
  local limits, texts, keys
  local chargeKeys, chargeArgv, chargeName
  local state = {}
  local ring = {
    tickAt = function(_, slot)
      return (redis.unpack("<I4", state.text, entriesAt + slot * 8 + 1))
    end,
    startAt = function(_, slot)
      return (redis.unpack("<I4", state.text, entriesAt + slot * 8 + 5))
    end,
  }

  local function edit(newLimits)
    limits = newLimits
    for i, limit in ipairs(limits) do
      local algorithm, size = limit.algorithm, whole(limit.burst)
      if limit.initial then
        algorithm = "shaped-bucket"
        size = size .. "/" .. whole(limit.initial) .. "/" .. whole(limit.warmUpUs)
      elseif algorithm == "sliding-window" then
        size = whole(limit.precisionUs)
      end
      texts[i] = { algorithm, whole(limit.quota), whole(limit.windowUs), size }
    end
    -- A single counter uses the script of its algorithm, if there is one.
    local name = "charge_" .. texts[1][1]:gsub("-", "_")
    if #limits == 1 and redis.scripts[name] then
      chargeName = name
      chargeArgv = { texts[1][2], texts[1][3], texts[1][4] }
    else
      chargeName = "charge"
      chargeArgv = {}
      for i in ipairs(limits) do
        for k = 1, 4 do
          chargeArgv[(i - 1) * 5 + k] = texts[i][k]
        end
      end
    end
  end

  -- A gateway tells the scripts where the windows of a calendar are, in place of a burst.
  local function tellMoments(nowUs)
    for i, limit in ipairs(limits) do
      if limit.algorithm == "calendar-window" then
        local moments = trace.momentsAround(limit.windowUs, nowUs)
        for k = 1, 4 do
          moments[k] = whole(moments[k])
        end
        texts[i][4] = table.concat(moments, " ")
        chargeArgv[chargeName == "charge" and i * 5 - 1 or 3] = texts[i][4]
      end
    end
  end

  local player = {}

  function player.begin(newLimits)
    if keys then
      redis.clear(keys)
    end
    keys, texts = {}, {}
    for i in ipairs(newLimits) do
      keys[i] = "{parity}:" .. i
    end
    edit(newLimits)
  end

  player.edit = edit

  function player.ask(nowUs, cost, reported)
    redis.nowUs = nowUs
    tellMoments(nowUs)
    local costText = whole(cost)
    if chargeName ~= "charge" then
      chargeArgv[4] = costText
      local reply = redis.run(chargeName, keys, chargeArgv)
      for i = 1, 6 do
        reported[i] = (redis.unpack("<d", reply, i * 8 - 7))
      end
      return reported[1] == 1
    end
    for i = 1, #limits do
      chargeArgv[i * 5] = costText
    end
    local reply = redis.run("charge", keys, chargeArgv)
    for i = 1, #limits * 6 do
      reported[i] = reply[i + 1]
    end
    return reply[1] == 1
  end

  function player.peek(nowUs, cost, reported)
    redis.nowUs = nowUs
    tellMoments(nowUs)
    for i, text in ipairs(texts) do
      local reply = redis.run("peek", { keys[i] }, { text[1], text[2], text[3], text[4], whole(cost) })
      for k = 1, 5 do
        reported[(i - 1) * 6 + k] = reply[k]
      end
      reported[i * 6] = 0
    end
  end

  function player.refund(nowUs, cost, moments)
    redis.nowUs = nowUs
    tellMoments(nowUs)
    local argv = {}
    for i, text in ipairs(texts) do
      for k = 1, 4 do
        argv[(i - 1) * 6 + k] = text[k]
      end
      argv[(i - 1) * 6 + 5] = whole(cost)
      argv[i * 6] = whole(moments[i])
    end
    redis.run("refund", keys, argv)
  end

  function player.renew(nowUs, slots, heldAtUs)
    redis.nowUs = nowUs
    return redis.run("renew", keys, { texts[1][2], texts[1][3], whole(slots), whole(heldAtUs) })
  end

  function player.stored(index, _, into)
    local limit = limits[index + 1]
    local text = redis.get(keys[index + 1])
    local atUs, count = 0, 0
    local entries = false
    if text then
      atUs, count = redis.unpack("<dd", text)
      -- A bucket ends with its sizes, in 8 or 24 bytes.
      entries = #text >= entriesAt + entryBytes
    end
    into[#into + 1] = atUs
    into[#into + 1] = count
    if entries then
      state.text = text
      state.atUs = atUs
      state.first, state.length, state.capacity, state.start, state.offset =
        redis.unpack("<I4I4I4I4I4", text, headBytes + 1)
      if limit.initial then
        trace.beginningOf(state, ring, into)
      else
        trace.entriesOf(tickUsOf(limit), state, ring, into)
      end
    end
  end

  return player
end
