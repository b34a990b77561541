-- Plays worlds (world.ts) in virtual nginxes: each line of standard input is a world in JSON, and is answered by a line with what became
-- of its events. Run in the project's directory, or in a copy of it that has gateway/dist.

package.path = "./?.lua;" .. package.path

local cjson = require("cjson")
local nginx = require("test.gateway.virtual.nginx")
local support = require("test.gateway.virtual.support")

-- An hour of a virtual nginx is many timers: of a pause in which nobody waits, only the first and the last ms are played, and all clocks
-- step ahead between them.
local playedOfPauseMs = 15
-- A worker needs so much for a question to Redis and its answer, which take no time on their way.
local asksRedisMs = 0.01
-- An edit needs so much to reach all workers, and a reset until they agree: so much of the next pause is played whole.
local untilAppliedMs = {
  put = 25,
  delete = 25,
  ["put-consumer"] = 25,
  ["delete-consumer"] = 25,
  reload = 25,
  restart = 25,
  reset = 200,
}
local consumersBytes = 1048576
local token = "token-of-the-caller"

local mostKilobytes = 200000

-- A caller of the check API has one token, whose hash gateways know.
local function callersOf(one)
  return { one.workers[1].module("gateway.src.runtime.sha256").sha256Hex(token) }
end

-- A consumer as the control plane tells gateways of it (limiter/src/protocol/consumer-lines.ts).
local function lineOf(consumer)
  local overrides = consumer.overrides and "\t" .. cjson.encode(consumer.overrides) or ""
  return "+shop:" .. consumer.id .. "\t" .. consumer.plan .. overrides
end

local positions = setmetatable({}, { __mode = "k" })

local function tellOfConsumers(all, lines)
  for _, one in ipairs(all) do
    local from = positions[one] or 0
    positions[one] = from + 1
    local head = { epoch = "e1", from = from, to = from + 1, fresh = from == 0 or nil, more = false }
    -- A gateway knows such a message by its beginning.
    local text = '{"type":"consumers",' .. cjson.encode(head):sub(2)
    local worker = one.workers[1]
    worker.call(function()
      local push = worker.module("gateway.src.push.consumers")
      push.takeConsumers({ gatewayDir = "/nowhere/of-a-virtual-nginx/" }, { text .. "\n" .. table.concat(lines, "\n") .. "\n" })
    end)
  end
end

-- One of the world's gateways, none of whose workers has begun. `beside`: another one, or undefined.
local function newGateway(world, i, beside)
  return nginx.world({
    seed = i,
    workers = world.workers,
    begins = false,
    beside = beside,
    redis = { upUs = 0, downUs = 0, connectUs = 0 },
    environment = { SLUICE_GATEWAY_ID = "g" .. i },
    sizes = world.consumers and { sluice_consumers = consumersBytes },
  })
end

local function beginWorlds(world)
  local all = {}
  for i = 1, world.gateways do
    local one = newGateway(world, i, all[1])
    one.wallUs = world.startMs * 1000
    all[i] = one
  end
  all[1].redis.clockUs = world.startMs * 1000 - 1700000000000000
  for _, one in ipairs(all) do
    one.setGateways(#all)
    one.publish(world.policies, world.zones, callersOf(one))
    for _, worker in ipairs(one.workers) do
      worker.begin()
    end
  end
  if world.consumers then
    local lines = {}
    for i, consumer in ipairs(world.consumers) do
      lines[i] = lineOf(consumer)
    end
    tellOfConsumers(all, lines)
  end
  all[1].run(20)
  support.knowScripts(all[1].redis)
  -- The world does not count the time that passes here.
  for _, one in ipairs(all) do
    one.wallUs = world.startMs * 1000 - one.clock.nowUs
  end
  local redis = all[1].redis
  redis.clockUs = redis.clockUs - all[1].clock.nowUs
  local timeUs = redis.timeUs
  -- So the moment of each decision is known, however many questions come before it.
  function redis.timeUs()
    return timeUs() - timeUs() % 1000 + world.redisAheadUs
  end
  return all
end

local function reload(one)
  local former = { unpack(one.workers) }
  one.generation = one.generation + 1
  for number in ipairs(former) do
    one.addWorker(number).begin()
  end
  for _, worker in ipairs(former) do
    worker.quit()
  end
end

-- Its shared memory is gone.
local function restart(world, all, i, policies, consumers)
  local former = all[i]
  for _, worker in ipairs(former.workers) do
    worker.kill()
  end
  local one = newGateway(world, i, former)
  one.wallUs = former.wallUs
  one.errors = former.errors
  one.setGateways(#all)
  one.publish(policies, world.zones, callersOf(one))
  for _, worker in ipairs(one.workers) do
    worker.begin()
  end
  if world.consumers then
    local lines = {}
    for _, line in pairs(consumers) do
      lines[#lines + 1] = line
    end
    tellOfConsumers({ one }, lines)
  end
  all[i] = one
end

local function stepClocks(all, us)
  for _, one in ipairs(all) do
    one.wallUs = one.wallUs + us
  end
  all[1].redis.clockUs = all[1].redis.clockUs + us
end

local function anyoneOpen(all)
  for _, one in ipairs(all) do
    if one.requestsOpen() > 0 then
      return true
    end
  end
  return false
end

-- Lets time go on until `ms` after the event before, which was due at `dueUs` of the world's clock. Returns when this one is due.
local function pass(all, dueUs, ms, playedMs)
  local clock = all[1].clock
  dueUs = dueUs + ms * 1000
  clock.runUntil(math.max(clock.nowUs, math.min(dueUs, clock.nowUs + playedMs * 1000)))
  while dueUs - clock.nowUs > playedOfPauseMs * 3000 and anyoneOpen(all) do
    clock.runUntil(clock.nowUs + playedOfPauseMs * 1000)
  end
  if dueUs - clock.nowUs > playedOfPauseMs * 3000 then
    clock.runUntil(clock.nowUs + playedOfPauseMs * 1000)
    local skippedUs = dueUs - clock.nowUs - playedOfPauseMs * 1000
    stepClocks(all, skippedUs)
    dueUs = dueUs - skippedUs
  end
  clock.runUntil(math.max(clock.nowUs, dueUs))
  return dueUs
end

local function publish(all, policies, zones)
  local list = {}
  for _, policy in ipairs(policies) do
    list[#list + 1] = policy
  end
  for _, one in ipairs(all) do
    one.publish(list, zones, callersOf(one))
  end
end

local function put(policies, policy)
  for i, other in ipairs(policies) do
    if other.name == policy.name then
      policies[i] = policy
      return
    end
  end
  policies[#policies + 1] = policy
end

local function delete(policies, name)
  for i, other in ipairs(policies) do
    if other.name == name then
      table.remove(policies, i)
      return
    end
  end
end

local function ask(all, event)
  local variables = { remote_addr = event.address, body_bytes_sent = event.bytes and ("%.0f"):format(event.bytes) }
  for name, value in pairs(event.headers) do
    variables["http_" .. name:gsub("-", "_")] = value
  end
  return all[event.gateway].workers[event.worker].request({
    uri = event.path,
    variables = variables,
    serviceUs = event.serviceMs * 1000,
  })
end

local function check(all, event)
  return all[event.gateway].workers[event.worker].request({
    uri = "/sluice/v1/check",
    method = "POST",
    content = "check",
    variables = { http_authorization = "Bearer " .. token, http_content_type = "application/json" },
    body = event.body,
  })
end

local orders = { read = "read", reset = "forget", ["top-up"] = "top-up" }

local function order(one, event)
  local answer
  local worker = one.workers[1]
  worker.call(function()
    answer = worker.module("gateway.src.push.counter-orders").obey({
      type = "counter",
      id = 1,
      ["do"] = orders[event["do"]],
      app = "shop",
      policy = event.policy,
      key = event.key,
      units = event.units,
    })
  end)
  return function()
    local limits = {}
    for i, row in ipairs(answer and answer.limits or {}) do
      -- Lua's JSON writes 14 digits of a number, and the µs of many years have 16.
      local resetAfterUs = ("%.0f"):format(row.resetAfterUs)
      limits[i] = { name = row.name, limit = row.capacity, remaining = row.remaining, resetAfterUs = resetAfterUs }
    end
    return { limits = limits }
  end
end

local function answerOf(request)
  local headers = {}
  for name, value in pairs(request.headers) do
    headers[name:lower()] = tostring(value)
  end
  local marks = {}
  for name, value in pairs(request.sent) do
    marks[#marks + 1] = name .. ": " .. value
  end
  return {
    status = request.status or 0,
    headers = headers,
    marks = table.concat(marks, "\n"),
    body = request.body or "",
    waitedUs = (request.decidedUs or -1) - request.beganUs,
  }
end

local function play(world)
  local all = beginWorlds(world)
  local policies = {}
  for i, policy in ipairs(world.policies) do
    policies[i] = policy
  end
  local consumers = {}
  for _, consumer in ipairs(world.consumers or {}) do
    consumers[consumer.id] = lineOf(consumer)
  end
  local waiting = {}
  local untilMs = 0
  local dueUs = all[1].clock.nowUs
  for i, event in ipairs(world.events) do
    dueUs = pass(all, dueUs, event.afterMs, untilMs)
    local what = event["do"]
    untilMs = untilAppliedMs[what] or 0
    if what == "ask" or what == "check" then
      local request = what == "ask" and ask(all, event) or check(all, event)
      all[1].run(0)
      -- Its turn at Redis comes within a µs or two, and before that of the next request.
      if not request.decidedUs then
        all[1].run(asksRedisMs)
      end
      waiting[i] = function()
        return answerOf(request)
      end
    elseif what == "step" then
      stepClocks(all, event.byMs * 1000)
    elseif what == "put-consumer" then
      consumers[event.consumer.id] = lineOf(event.consumer)
      tellOfConsumers(all, { lineOf(event.consumer) })
    elseif what == "delete-consumer" then
      consumers[event.id] = nil
      tellOfConsumers(all, { "-shop:" .. event.id })
    elseif what == "reload" then
      reload(all[event.gateway])
    elseif what == "restart" then
      restart(world, all, event.gateway, policies, consumers)
    elseif what == "put" or what == "delete" then
      if what == "put" then
        put(policies, event.policy)
      else
        delete(policies, event.policy)
      end
      publish(all, policies, world.zones)
    else
      waiting[i] = order(all[event.gateway], event)
      all[1].run(0)
    end
  end
  for _ = 1, 100000 do
    if not anyoneOpen(all) then
      break
    end
    all[1].run(playedOfPauseMs)
  end
  all[1].run(untilMs)
  local answers = {}
  for i in ipairs(world.events) do
    answers[i] = waiting[i] and waiting[i]() or {}
  end
  local fault
  for _, one in ipairs(all) do
    fault = fault or one.errors[1]
    if one.spins[1] then
      fault = fault or "a worker waits without letting others run"
    end
    for place in pairs(support.defects(one)) do
      fault = fault or "a defect in " .. place
    end
  end
  if all[1].redis.defect then
    fault = fault or tostring(all[1].redis.defect)
  end
  return { answers = answers, fault = fault }
end

for line in io.lines() do
  local ok, played = pcall(play, cjson.decode(line))
  if not ok then
    played = { answers = {}, fault = tostring(played) }
  end
  io.write(cjson.encode(played), "\n")
  io.flush()
  -- A world leaves many MB behind, which LuaJIT would collect much later.
  if collectgarbage("count") > mostKilobytes then
    collectgarbage()
  end
end
